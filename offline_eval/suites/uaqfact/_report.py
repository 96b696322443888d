"""The report of a run of this suite: its sentences and sections.

run folder ─► checked_run ─► UaqSummary ─► uaqfact_document ─► a file per format
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...data.graph.items import UaqItem
from ...report.document import Case, CaseLine, Cases, Document, Passages, Prose, Section, as_json
from ...report.plots import Colour, Plot
from ...report.prose import Templates, explained
from ...report.tables import Cell, Table
from ...report.text import decimal, percent
from ...run.grouping import error_types, grouped
from ..parts import MODEL_SYSTEM, closing_sections, run_values
from ._asking import Form, UaqRow
from ._scoring import (
    ALL,
    Line,
    ScoredReply,
    UaqRun,
    score_choices,
    score_run,
    verdicts,
)


class UaqSummary:
    """All numbers of a run; the same run gives the same numbers.

    Args:
        run: what they are computed from.

    Attributes:
        strict: under the rules that count.
        published: under the authors' rules.
        choices: task 2.
        scored: row → verdict under the strict rules.
        failures: rows with an error, by type, most frequent first.
    """

    def __init__(self, run: UaqRun) -> None:
        self.run = run
        self.strict, self.published = score_run(run), score_run(run, rule="published")
        self.choices = score_choices(run)
        replies = [row for row in run.rows if row.form != "choice"]
        self.scored = verdicts(replies, {item.key: item for item in run.data.items})
        self.failures = error_types(run.rows)

    @property
    def whole(self) -> list[Line]:
        """One line per system and form, over all types and languages."""
        return _whole(self.strict)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        # What gates ask for by short names: the model as it is, in its first form.
        first = [*self.whole, *self.choices, {}][0]
        names = ("r_ua", "r_ab", "r_delta", "accuracy", "kpr", "krr") if self.whole else ("kpr",)
        values = {
            "questions": len(self.run.data.items),
            "languages": list(self.run.data.languages),
            "rows": len(self.run.rows),
            "rows_planned": self.run.manifest.rows,
            "failures": dict(self.failures),
            **{name: first[name] for name in names if name in first},
            "lines": [*self.strict, *self.published],
            "task2": self.choices,
            "quirks": list(self.run.manifest.quirks),
        }
        return run_values(self.run.manifest, as_json(values))


def _whole(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line["language"] == line["type"] == ALL]


TEXTS = Templates(Path(__file__).parent / "report.txt")
FORM_NAMES: dict[Form, str] = {
    "question": "question alone",
    "clue": "after its reasoning",
    "facts": "with the facts behind it",
    "retrieved": "with retrieved facts",
}
TYPE_NAMES = {
    ALL: "all types",
    "inter": "empty intersection",
    "time": "impossible time",
    "dilemma": "two wrong options",
}
_HOW = "How it was asked"
_Column = tuple[str, list[Cell]]


def line_name(line: Line) -> str:
    """Name a line's system and form."""
    system = "" if line["system"] == MODEL_SYSTEM else f"guard {line['system']}, "
    return f"{system}{FORM_NAMES[line['form']]}"


def _type_name(line: Line) -> str:
    return TYPE_NAMES[line["type"]] + ("" if line["language"] == ALL else f", {line['language']}")


def _column(lines: Sequence[Line], name: str, heading: str, better: int = 0) -> _Column:
    return heading, Cell.column([line[name] for line in lines], better=better)


def metric_table(lines: Sequence[Line], name: Callable[[Line], str] = line_name) -> Table:
    """Make the table of rates, one line per system and form."""
    columns = [
        _column(lines, "r_ua", "Abstained, unanswerable", 1),
        _column(lines, "r_ab", "Abstained, answerable", -1),
        ("Difference (RΔ)", [Cell.difference(line["r_delta"], better=1) for line in lines]),
        _column(lines, "accuracy", "Right, answerable", 1),
        _column(lines, "kpr", "KPR"),
        ("KRR", Cell.column([line["krr"] for line in lines], decimal)),
        ("Questions", [Cell(str(line["questions"])) for line in lines]),
    ]
    return Table.from_columns(_HOW, [name(line) for line in lines], columns)


def rule_table(summary: UaqSummary) -> Table:
    """Make the table of the strict rules beside the published ones."""
    columns = [
        (heading, [Cell(percent(line[name].value)) for line in lines])
        for title, name in (
            ("Abstained, unanswerable", "r_ua"),
            ("Abstained, answerable", "r_ab"),
            ("Right, answerable", "accuracy"),
        )
        for heading, lines in (
            (f"{title}: strict", summary.whole),
            ("published", _whole(summary.published)),
        )
    ]
    names = [line_name(line) for line in summary.whole]
    return Table.from_columns(_HOW, names, columns, notes=explained("uaqfact_rules"))


def choice_table(lines: Sequence[Line]) -> Table:
    """Make the table of task 2."""
    columns = [
        _column(lines, "accuracy", "Right"),
        _column(lines, "kpr", "KPR"),
        ("Questions", [Cell(str(line["accuracy"].n)) for line in lines]),
        ("No letter read", [Cell(str(line["unread"])) for line in lines]),
    ]
    notes = (*TEXTS.terms("choices"), *explained("kpr"))
    return Table.from_columns("Facts asked", list(map(_type_name, lines)), columns, notes=notes)


if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINE, _FRAME = 0.42, 1.2


def refusal_plot(summary: UaqSummary) -> Plot | None:
    """Plot abstention rates by type; None where nothing was measured."""
    lines = [
        line
        for line in summary.strict
        if line["language"] == ALL and line["r_ua"].value is not None
    ]
    if not lines:
        return None
    # Guards are numbered: their names come from files of the user's.
    systems = list(
        dict.fromkeys(line["system"] for line in lines if line["system"] != MODEL_SYSTEM)
    )
    named = {system: f"guard {number}, " for number, system in enumerate(systems, start=1)}
    names = [
        named.get(line["system"], "")
        + (FORM_NAMES[line["form"]] if line["type"] == ALL else f"– {TYPE_NAMES[line['type']]}")
        for line in lines
    ]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        drawn: tuple[Any, ...] = (
            (left, "r_ua", "o", Colour.BLUE, "unanswerable"),
            (left, "r_ab", "s", Colour.VERMILION, "answerable"),
            (right, "accuracy", "D", Colour.BLUE, ""),
        )
        for height, line in enumerate(lines):
            ends = [line[name].value for name in ("r_ua", "r_ab") if line[name].value is not None]
            left.plot(ends, [height] * len(ends), color=Colour.GREY, linewidth=1.2, zorder=1)
            for axes, name, marker, colour, label in drawn:
                style = {"marker": marker, "colour": colour, "label": "" if height else label}
                Plot.draw_interval(axes, line[name], height, **style)
        left.set_xlabel("share abstained")
        right.set_xlabel("answerable: share right")
        left.set_yticks(range(len(names)), names)
        left.invert_yaxis()
        for axes in (left, right):
            axes.set_xlim(-0.03, 1.03)
            axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
            axes.grid(visible=False, axis="y")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=2)

    return Plot(
        name="refusals",
        title="When it abstains",
        caption=TEXTS.text("caption"),
        draw=draw,
        size=(8.4, _FRAME + _LINE * len(lines)),
    )


_SHOWN = 5
_MISTAKES = {
    "Answered without an answer": "The question has none, and the reply names one.",
    "False abstentions": "The question has an answer, and the reply abstains.",
    "Wrong answers": "The question has another answer than the reply names.",
}


def shown_groups(summary: UaqSummary) -> list[Section]:
    """Choose a few replies of each kind of mistake."""
    items = {item.key: item for item in summary.run.data.items}
    rows = [row for row in summary.run.rows if row.row_id in summary.scored]
    mistakes = grouped(rows, lambda row: _mistake(summary.scored[row.row_id]))
    found = []
    for title, meaning in _MISTAKES.items():
        own = mistakes.get(title, [])
        # Evenly over systems, forms and types, in a fixed order.
        parts = grouped(own, lambda row: (row.system, row.form, row.type.value))
        turns = (row for turn in zip_longest(*parts.values()) for row in turn if row is not None)
        cases = Cases(tuple(_shown(row, items[row.key]) for row in islice(turns, _SHOWN)))
        found.append(Section(f"{title}: {len(own)}", (meaning, cases), folded=True))
    return found


def _mistake(verdict: ScoredReply) -> str:
    if verdict.unanswerable:
        return "" if verdict.refused else "Answered without an answer"
    if verdict.refused:
        return "False abstentions"
    return "" if verdict.correct else "Wrong answers"


def _shown(row: UaqRow, item: UaqItem) -> Case:
    system = "" if row.system == MODEL_SYSTEM else f"guard {row.system} · "
    facts = () if row.form == "question" else item.clues
    given = tuple(CaseLine(f"{clue.question} {', '.join(clue.answers)}") for clue in facts)
    wanted = ", ".join(answer.label for answer in item.answers) or "no answer"
    return Case(
        question=item.question,
        note=f"{item.key} · {system}{FORM_NAMES[row.form]}",
        parts=(
            CaseLine(wanted, "Wanted", right=True),
            *([Passages(given)] if given else []),
            CaseLine(row.response or "(empty)", "Reply"),
        ),
    )


_FEW = 30


def uaqfact_document(summary: UaqSummary) -> Document:
    """Make the report of a summarised run."""
    run = summary.run
    return Document(
        name="uaqfact",
        title="Questions without an answer",
        subtitle=TEXTS.text("subtitle", run),
        headline=headline(summary),
        warnings=warnings(summary),
        sections=_sections(summary),
        values=summary.to_dict(),
    )


def headline(summary: UaqSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    plain = next((line for line in summary.whole if line["system"] == MODEL_SYSTEM), None)
    kpr = summary.choices[0]["kpr"] if summary.choices else None
    found = TEXTS.paragraphs("headline", plain, summary.whole, kpr)
    return found or TEXTS.paragraphs("nothing")


def warnings(summary: UaqSummary) -> list[str]:
    """Write what to know before trusting the numbers."""
    settings = summary.run.manifest.settings
    short = sum(
        row.shots < settings.get("shots", 0)
        for row in summary.run.rows
        if row.form in ("question", "clue") and row.error is None and row.route is None
    )
    return TEXTS.paragraphs(
        "warnings",
        summary.run,
        failed=sum(summary.failures.values()),
        short=0 if settings.get("model") == "replay" else short,
        few=any(line["questions"] < _FEW for line in summary.whole),
    )


def _sections(summary: UaqSummary) -> list[Section | None]:
    choices, replied = summary.choices, bool(summary.whole)
    parts = [line for line in summary.strict if line not in summary.whole]
    terms = explained("intervals", "best", "clear_above", "r_delta", "kpr", "krr")
    by_part = metric_table(parts, lambda line: f"{line_name(line)}: {_type_name(line)}")
    abstaining = (
        refusal_plot(summary),
        metric_table(summary.whole),
        Prose((*terms, *TEXTS.terms("twins")), small=True),
        Section("By type and language", (by_part,), folded=True) if parts else None,
    )
    return [
        Section("What was tested", (TEXTS.text("tested"),)),
        Section("Abstaining and answering", abstaining) if replied else None,
        Section("The facts behind the questions", (choice_table(choices),)) if choices else None,
        Section("Strict and published rules", (rule_table(summary),)) if replied else None,
        Section("Replies worth reading", tuple(shown_groups(summary))) if replied else None,
        *closing_sections(summary.run.manifest, summary.failures, "Questions"),
    ]
