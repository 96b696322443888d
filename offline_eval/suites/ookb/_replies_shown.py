"""What the report of replies shows besides tables: a plot, and the cases worth reading.

The plot is drawn from numbers and plain names alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...report.document import Case, CaseLine, Cases, Passages, Section
from ...report.plots import Colour, Plot, error_bars
from ...report.text import one_line
from ...run.grouping import grouped
from ...run.questions import CaseKind
from ...run.replies import Judgement, ReplyContext, ReplySystem
from ._replies_summary import RepliesSummary
from ._replies_what_if import REPLIES_WORDS
from .replies import Evidence, RatedReply, plain_labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOOKS = (
    ("o", Colour.BLUE), ("s", Colour.VERMILION), ("^", Colour.AMBER), ("D", Colour.PURPLE),
    ("v", Colour.SKY), ("X", Colour.GREY),
)  # fmt: skip
_MARGIN = 0.02


def scatter_plot(summary: RepliesSummary) -> Plot | None:
    """Plot abstaining against being right, a point per system; None where nothing was judged."""
    names, groups = plain_labels(summary.names), _groups(summary.evidence.run.systems)
    points, silent = {}, []
    for one in summary.systems:
        shape, name = one.shape(), one.system.system_id
        if shape is None or not shape.out_of_kb.n:
            continue
        found = shape.out_of_kb
        if found.answered == 0:
            silent.append(names[name])
        if None not in (found.abstention_rate.value, found.factuality_rate.value):
            points[name] = (found.abstention_rate, found.factuality_rate)
    if not points:
        return None
    across, upward = (
        Plot.window(
            min(rate.low or 0.0 for rate in side) - _MARGIN,
            max(1.0 if rate.high is None else rate.high for rate in side) + _MARGIN,
            least=1 / 3,
            margin=_MARGIN,
        )
        for side in zip(*points.values(), strict=True)
    )
    alike = grouped(points, groups.__getitem__)
    looks = dict(zip(dict.fromkeys(groups.values()), _LOOKS, strict=False))

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        look: dict[str, Any] = {"elinewidth": 1.0, "alpha": 0.9, "markersize": 8, "zorder": 5}
        for group, own in alike.items():
            right, up = zip(*map(points.__getitem__, own), strict=True)
            x, y = ([rate.value for rate in side] for side in (right, up))
            (mark, colour), ends = looks[group], (error_bars(up), error_bars(right))
            axes.errorbar(
                x, y, *ends, fmt=mark, color=colour, mec=Colour.PAPER, label=group, **look
            )
        labels = "abstained, of all replies", "right or nearly so, of those answered"
        axes.set(xlim=across, ylim=upward, xlabel=labels[0], ylabel=labels[1])
        named = [(names[n], a.value or 0.0, b.value or 0.0) for n, (a, b) in points.items()]
        Plot.name_points(axes, named, across, upward)
        if len(looks) > 1:
            figure.legend(loc="outside upper center", ncols=4, handletextpad=0.2)

    caption, size = (
        REPLIES_WORDS.text("caption_of_scatter", silent),
        (8.2, max(5.6, 1.2 + 0.3 * len(points))),
    )
    return Plot("scatter-0", "Abstaining against being right", caption, draw, size)


def _groups(systems: Mapping[str, ReplySystem]) -> dict[str, str]:
    """Group the systems by the factor that colours stand for: one with few values."""
    for factor in ("guard", "retrieval", "model", "prompt"):
        values = dict.fromkeys(getattr(system, factor) for system in systems.values())
        if 1 < len(values) <= len(_LOOKS):
            shown = plain_labels({value: f"{factor} {value or 'unknown'}" for value in values})
            return {name: shown[getattr(system, factor)] for name, system in systems.items()}
    return dict.fromkeys(systems, "")


_SHOWN, _CONTEXTS, _REPLIES, _PASSAGES = 10, 3, 3, 5
_LONG, _REPLY_LIMIT, _PASSAGE_LIMIT = 300, 400, 200
# Words, replies to questions outside the KB or in it, what is a fault of theirs, and the title.
_FAULTS = (
    ("wrong", True, "wrong", "Confidently wrong: not in the knowledge base, yet answered"),
    (
        "false_abstentions",
        False,
        "abstained",
        "False abstentions: in the knowledge base, yet not answered",
    ),
)


def cases_worth_reading(evidence: Evidence, names: Mapping[str, str]) -> Section:
    """Show wrong answers and false abstentions, those of most systems first."""
    asked = Counter(reply.case.case_id for reply in evidence.replies)
    parts = []
    for words, out_of_kb, fault, title in _FAULTS:
        among = [reply for reply in evidence.replies if reply.out_of_kb is out_of_kb]
        by_case = grouped(filter(attrgetter(fault), among), lambda reply: reply.case.case_id)
        order = sorted(
            by_case.items(), key=lambda one: (-len(one[1]) / asked[one[0]], -len(one[1]), one[0])
        )
        cases = tuple(_shown(own, asked[name], names) for name, own in order[:_SHOWN])
        said = REPLIES_WORDS.text(words, among, len(cases), len(by_case))
        parts.append(Section(title, (said, Cases(cases) if cases else None)))
    return Section("Cases worth reading", tuple(parts))


def _shown(replies: Sequence[RatedReply], asked: int, names: Mapping[str, str]) -> Case:
    first, expected = replies[0], replies[0].question.answer
    by_context = grouped(replies, lambda reply: reply.row.context or ReplyContext())
    order = sorted(by_context, key=lambda context: (-len(by_context[context]), context.kind))
    if first.case.kind is CaseKind.SYNTHETIC and not expected:
        expected = "(none: the question was made to have no answer in the knowledge base)"
    parts: list[CaseLine | Passages] = [
        CaseLine(one_line(expected, _LONG), "Expected", right=True),
        *(part for context in order[:_CONTEXTS] for part in _context(by_context[context], names)),
    ]
    if (more := len(order) - _CONTEXTS) > 0:
        parts.append(CaseLine(f"… and {more} other contexts with a wrong reply."))
    systems = f" · {len(replies)} of {asked} systems" if asked > 1 else ""
    question = one_line(first.question.question, _LONG)
    return Case(question, f"{first.case.case_id}{systems}", tuple(parts))


def _context(replies: Sequence[RatedReply], names: Mapping[str, str]) -> list[CaseLine | Passages]:
    """The replies to one context, equal ones together, and the passages that were read."""
    first, context = replies[0], replies[0].row.context or ReplyContext()
    alike = grouped(replies, _line)
    parts: list[CaseLine | Passages] = [
        CaseLine(
            text,
            "Reply",
            tag=tag,
            wrong=True,
            note="; ".join(names[one.system.system_id] for one in same),
            reason=reason,
        )
        for (text, tag, reason), same in list(alike.items())[:_REPLIES]
    ]
    stored, base = first.run.passages, first.case.knowledge_base
    held = sum(passage.knowledge_base == base for passage in stored.values())
    description = REPLIES_WORDS.text("context", context, held)
    # A whole knowledge base is described by its size; only chosen passages say something.
    shown = context.passages if context.kind == "passages" else ()
    if not shown:
        return [*parts, CaseLine(description)]
    lines = tuple(
        CaseLine(
            one_line(stored[name].text, _PASSAGE_LIMIT)
            if name in stored
            else f"({name}: text not stored in the run)",
            right=name == first.question.own_passage,
        )
        for name in shown[:_PASSAGES]
    )
    return [*parts, Passages(lines, title=description, more=max(0, len(shown) - _PASSAGES))]


def _line(reply: RatedReply) -> tuple[str, str, str]:
    """The text of a reply, what is wrong with it, and why a judge says so."""
    text = one_line(reply.row.response or "", _REPLY_LIMIT) or "(an empty reply)"
    # "none": the judge of failures saw none, which says nothing about a wrong answer.
    kind = "" if reply.failure in (None, "none") else reply.failure
    criteria = (Judgement.FAILURE, Judgement.FACTUALITY)
    said = [
        reply.verdicts[name].reasoning
        for name in ((Judgement.ABSTENTION,) if reply.abstained else criteria)
        if name in reply.verdicts
    ]
    reason = one_line(next(filter(None, said), ""), _LONG)
    return text, one_line(kind.replace("_", " "), 60), reason
