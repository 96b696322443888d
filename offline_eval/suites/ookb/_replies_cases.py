"""The replies worth reading: wrong answers and false abstentions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter

from ...report.document import Case, CaseLine, Cases, Passages, Section
from ...report.text import one_line
from ...run.grouping import grouped
from ...run.questions import CaseKind
from ...run.replies import Judgement, ReplyContext
from ._replies_what_if import REPLIES_WORDS
from .replies import Evidence, RatedReply

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
