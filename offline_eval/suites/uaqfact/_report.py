"""The report of a run of this suite: its sentences and sections.

run folder ─► UaqRun ─► UaqSummary ─► uaqfact_document ─► a file per format
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...report.document import Document, Prose, Section, as_json
from ...report.plots import Colour, Plot, Series, dots
from ...report.prose import Templates, explained
from ...report.tables import Cell, Table
from ...report.text import decimal, percent
from ...run.grouping import error_types
from ..parts import MODEL_SYSTEM, closing_sections, run_values
from ._asking import Form
from ._scoring import (
    ALL,
    Line,
    UaqRun,
    score_choices,
    score_run,
)


class UaqSummary:
    """All numbers of a run; the same run gives the same numbers.

    Args:
        run: what they are computed from.

    Attributes:
        strict: under the rules that count.
        published: under the authors' rules.
        choices: task 2.
        failures: rows with an error, by type, most frequent first.
    """

    def __init__(self, run: UaqRun) -> None:
        self.run = run
        self.strict, self.published = score_run(run), score_run(run, rule="published")
        self.choices = score_choices(run)
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
    systems = dict.fromkeys(line["system"] for line in lines if line["system"] != MODEL_SYSTEM)
    named = {system: f"guard {number}, " for number, system in enumerate(systems, start=1)}
    names = [
        named.get(line["system"], "")
        + (FORM_NAMES[line["form"]] if line["type"] == ALL else f"– {TYPE_NAMES[line['type']]}")
        for line in lines
    ]
    abstained, answerable, right = (
        [line[name] for line in lines] for name in ("r_ua", "r_ab", "accuracy")
    )
    panels: dict[str, list[Series]] = {
        "share abstained": [
            ("unanswerable", "o", Colour.BLUE, abstained),
            ("answerable", "s", Colour.VERMILION, answerable),
        ],
        "answerable: share right": [("", "D", Colour.BLUE, right)],
    }
    return dots(("refusals", "When it abstains", TEXTS.text("caption")), names, panels)


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
        *closing_sections(summary.run.manifest, summary.failures, "Questions"),
    ]
