"""Tables of the report of this suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...report import Cell, Line, Table, decimal, explained, percent
from .._parts import MODEL_SYSTEM
from ._plan import Form
from ._report_summary import UaqSummary
from ._scoring import ALL, ChoiceLine, ScoreLine

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


def line_name(line: ScoreLine) -> str:
    """Name a line's system and form."""
    system = "" if line.system == MODEL_SYSTEM else f"guard {line.system}, "
    return f"{system}{FORM_NAMES[line.form]}"


def metric_table(lines: Sequence[ScoreLine], name: Callable[[ScoreLine], str] = line_name) -> Table:
    """Make the table of rates, one line per system and form."""
    metrics = [line.metrics for line in lines]
    columns = [
        ("Abstained, unanswerable", Cell.column([one.r_ua for one in metrics], better=1)),
        ("Abstained, answerable", Cell.column([one.r_ab for one in metrics], better=-1)),
        ("Difference (RΔ)", [Cell.difference(one.r_delta, better=1) for one in metrics]),
        ("Right, answerable", Cell.column([one.accuracy for one in metrics], better=1)),
        ("KPR", Cell.column([one.kpr for one in metrics])),
        ("KRR", Cell.column([one.krr for one in metrics], decimal)),
        ("Questions", [Cell(str(one.questions)) for one in metrics]),
    ]
    return Table.from_columns(_HOW, [name(line) for line in lines], columns)


def part_table(summary: UaqSummary) -> Table | None:
    """Make the same table by type and language; None where there is one part only."""
    parts = [line for line in summary.strict if not line.language == line.type == ALL]
    return metric_table(parts, _part_name) if parts else None


def _part_name(line: ScoreLine) -> str:
    return f"{line_name(line)}: {_type_name(line)}"


def _type_name(line: ScoreLine | ChoiceLine) -> str:
    return TYPE_NAMES[line.type] + ("" if line.language == ALL else f", {line.language}")


def rule_table(summary: UaqSummary) -> Table:
    """Make the table of the strict rules beside the published ones."""
    published = {
        (line.system, line.form): line.metrics
        for line in summary.published
        if line.language == line.type == ALL
    }
    lines = []
    for line in summary.whole:
        strict, other = line.metrics, published[line.system, line.form]
        shares = (
            *(strict.r_ua, other.r_ua),
            *(strict.r_ab, other.r_ab),
            *(strict.accuracy, other.accuracy),
        )
        cells = tuple(Cell(percent(share.value)) for share in shares)
        lines.append(Line(line_name(line), cells))
    columns = (
        *("Abstained, unanswerable: strict", "published"),
        *("Abstained, answerable: strict", "published"),
        *("Right, answerable: strict", "published"),
    )
    return Table(_HOW, columns, tuple(lines), notes=explained("uaqfact_rules"))


def choice_table(lines: Sequence[ChoiceLine]) -> Table:
    """Make the table of task 2."""
    columns = [
        ("Right", Cell.column([line.accuracy for line in lines])),
        ("KPR", Cell.column([line.kpr for line in lines])),
        ("Questions", [Cell(str(line.accuracy.n)) for line in lines]),
        ("No letter read", [Cell(str(line.unread)) for line in lines]),
    ]
    return Table.from_columns(
        "Facts asked",
        [_type_name(line) for line in lines],
        columns,
        notes=(
            "Four options, one of them right: guessing gives 25 %. A reply from which no single "
            "letter can be read counts as wrong.",
            *explained("kpr"),
        ),
    )
