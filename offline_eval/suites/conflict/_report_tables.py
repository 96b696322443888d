"""Tables of the report of this suite; None where a table would have no line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....calibration import Interval
from ....guard.decision import Route
from ...report import Cell, Line, Table, decimal
from .._parts import MODEL_SYSTEM
from ._items import EvidenceKind, Task
from ._report_summary import ConflictSummary
from ._rows import CLOSED_BOOK, REMOVES
from ._scoring import AccuracyCell

_KINDS = {
    EvidenceKind.NC: "agrees with the belief",
    EvidenceKind.HPC: "contradicts it, plausibly",
    EvidenceKind.HPCE: "the same with a rationale",
    EvidenceKind.LPC: "contradicts it, implausibly",
}
TASK_NAMES = {
    Task.KF: "copy the answering sentence",
    Task.CK: "answer from the context only",
    Task.PK: "answer from own knowledge only",
    Task.PCK: "give both views",
    Task.RAG: "two passages, no instruction which to prefer",
}
_ROUTES = {
    Route.FOLLOW_CONTEXT: "Passage kept",
    Route.ANSWER: "Passage removed",
    Route.ABSTAIN: "Abstained",
}


def system_name(system: str) -> str:
    """Name a system in plain text."""
    names = {
        MODEL_SYSTEM: "told to ignore the passage",
        CLOSED_BOOK: "closed book",
        REMOVES: "passage removed",
    }
    return names.get(system, f"guard {system}")


def accuracy_table(summary: ConflictSummary) -> Table | None:
    """Make the table of accuracy by task and evidence."""
    return _accuracy(
        summary.cells,
        summary.run.kinds,
        lambda cell: cell.accuracy,
        notes=(
            "Share of the questions, with 95 % intervals beneath. CK to RAG have four options in "
            "balanced places; all right options and no other must be chosen. Right is: in CK what "
            "the passage says, in PK the belief, in PCK both, in RAG the answers of both passages. "
            "Chance is 25 % where one option is wanted.",
        ),
    )


def confident_table(summary: ConflictSummary) -> Table | None:
    """Make the same table for the high-confidence subset."""
    cells = [cell for cell in summary.cells if cell.confident.n]
    return _accuracy(cells, summary.run.kinds, lambda cell: cell.confident)


def _accuracy(
    cells: Sequence[AccuracyCell],
    kinds: Sequence[EvidenceKind],
    pick: Callable[[AccuracyCell], Interval],
    notes: tuple[str, ...] = (),
) -> Table | None:
    if not cells:
        return None
    by_place = {(cell.task, cell.evidence): pick(cell) for cell in cells}
    tasks = [task for task in Task if any(cell.task is task for cell in cells)]
    lines = tuple(
        Line(
            f"{task.value}: {TASK_NAMES[task]}",
            tuple(Cell.estimate(by_place.get((task, kind))) for kind in kinds),
        )
        for task in tasks
    )
    columns = tuple(f"{kind.value}: {_KINDS[kind]}" for kind in kinds)
    return Table("Task", columns, lines, notes=notes)


def cost_table(summary: ConflictSummary) -> Table | None:
    """Make the table of what contradiction costs, by task."""
    kinds = [kind for kind in summary.run.kinds if kind is not EvidenceKind.NC]
    by_place = {(task, kind): value for task, kind, value in summary.differences}
    lines = tuple(
        Line(task.value, tuple(Cell.difference(by_place.get((task, kind))) for kind in kinds))
        for task in dict.fromkeys(task for task, _ in by_place)
    )
    notes = (
        "Accuracy over NC minus accuracy over evidence that contradicts, in percentage points, "
        "paired by question; ● marks an interval that excludes zero.",
    )
    return _table("NC minus …", tuple(kind.value for kind in kinds), lines, notes)


def suppression_table(summary: ConflictSummary) -> Table | None:
    """Make the table of instruction, removal and guards, by evidence."""
    lines = tuple(
        Line(
            f"{found.evidence.value}, {system_name(found.system)}",
            (
                Cell.estimate(found.accuracy),
                Cell.estimate(found.closed_book),
                Cell.difference(found.difference),
                Cell.estimate(found.score),
            ),
        )
        for found in summary.suppressions
    )
    columns = ("PK right", "Closed book right", "Difference, points", "Suppression score")
    notes = (
        "Own knowledge asked for (PK).",
        (
            "suppression score",
            "share of the questions right in closed book that stay right: 1 where the passage is "
            "ignored, 0 where it always wins.",
        ),
        (
            "passage removed",
            "the same request with the passage taken out of every question: what a guard that "
            "always removes it would reach, not what any guard decided. A guard's line follows "
            "its own decisions, and a question from which it abstains is not right.",
        ),
    )
    return Table("Evidence and system", columns, lines, notes=notes) if lines else None


def route_table(summary: ConflictSummary) -> Table | None:
    """Make the table of what guards did with the passages."""
    lines = tuple(
        Line(
            f"{kind.value}, {system_name(name)}",
            tuple(Cell(str(kinds[kind][route])) for route in _ROUTES),
        )
        for name, kinds in summary.routes.items()
        for kind in summary.run.kinds
        if kind in kinds
    )
    notes = (
        "Over NC, too, where keeping the passage does no harm. Failed decisions are in none of "
        "the columns.",
    )
    return _table("Evidence and guard", tuple(_ROUTES.values()), lines, notes)


def preference_table(summary: ConflictSummary) -> Table | None:
    """Make the table of which of two passages is followed."""
    lines = tuple(
        Line(
            f"{one.evidence.value}: {_KINDS[one.evidence]}",
            tuple(map(Cell.estimate, (one.follows, one.both, one.neither))),
        )
        for one in summary.preferences
    )
    columns = ("Goes with the contradicting passage", "Names both answers", "Names neither")
    notes = (
        "The first column counts the replies that take one side only; where options were scored, "
        "the likelier side.",
    )
    return _table("Beside the passage that agrees", columns, lines, notes)


def plausibility_table(summary: ConflictSummary) -> Table | None:
    """Make the table by measured plausibility."""
    lines = tuple(
        Line(
            f"{decimal(band.low, 2)}–{decimal(band.high, 2)}",
            (Cell.estimate(band.follows), Cell.estimate(band.ignores)),
        )
        for band in summary.bands
    )
    columns = ("CK right: passage followed", "PK right: passage ignored")
    notes = (
        "Passages that contradict, in bands of how plausible their answer is: the judges' mean on "
        "a scale from 0 to 1 where there are judges, otherwise the rank of the answer's likelihood "
        "per token after the bare question among wrong answers of the same kind.",
    )
    return _table("Plausibility of the answer", columns, lines, notes)


def evidence_table(summary: ConflictSummary) -> Table:
    """Make the table of passages made and used."""
    lines = tuple(
        Line(
            f"{one.kind.value}: {_KINDS[one.kind]}",
            (
                Cell(str(one.made)),
                Cell(str(one.used)),
                Cell(str(one.doubted)),
                Cell(decimal(one.plausibility, 2)),
            ),
        )
        for one in summary.evidence
    )
    return Table("Kind", ("Passages", "Used", "Checks disagree", "Mean plausibility"), lines)


def _table(
    name: str, columns: tuple[str, ...], lines: tuple[Line, ...], notes: tuple[str, ...]
) -> Table | None:
    return Table(name, columns, lines, notes=notes) if lines else None
