"""The report of a run of this suite: its sentences and sections.

run ─► conflict_run ─► ConflictSummary ─► conflict_document ─► a file per format
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from ....calibration import Interval
from ....guard.decision import Route
from ...report.document import Block, Document, Facts, Prose, Section
from ...report.plots import Colour, dots
from ...report.prose import Templates, explained
from ...report.tables import Cell, Table
from ...report.text import decimal
from ..parts import MODEL_SYSTEM, closing_sections
from ._rows import REMOVES
from ._scoring import ConflictSummary
from .items import EvidenceKind, Task

TEXTS = Templates(Path(__file__).parent / "report.txt")
_MARKS = {
    EvidenceKind.NC: ("o", Colour.BLUE),
    EvidenceKind.HPC: ("s", Colour.VERMILION),
    EvidenceKind.HPCE: ("D", Colour.PURPLE),
    EvidenceKind.LPC: ("^", Colour.AMBER),
}
_MOST_GUARDS = 3


def _names(macro: str) -> dict[str, str]:
    """Return what kinds, tasks and systems are called."""
    return dict(TEXTS.pairs(macro))


def conflict_document(summary: ConflictSummary) -> Document:
    """Make the report of a summarised run."""
    run, cells = summary.run, [one for of in summary.cells.values() for one in of.values()]
    return Document(
        name="conflict",
        title="Context against memory",
        subtitle=TEXTS.text("subtitle", run),
        headline=headline(summary),
        warnings=TEXTS.paragraphs(
            "warnings",
            run,
            failed=sum(summary.failures.values()),
            cut=sum(row.cut for row in run.rows if row.system not in run.guards),
            unread=sum(cell["unread"] for cell in cells),
        ),
        sections=_sections(summary),
        values=summary.to_dict(),
    )


def headline(summary: ConflictSummary) -> list[str]:
    """Write the opening sentences, the most important one first."""
    plausible = summary.suppressions.get(EvidenceKind.HPC, {})
    guards = [
        (name, plausible[name], kinds[EvidenceKind.HPC])
        for name, kinds in summary.routes.items()
        if EvidenceKind.HPC in kinds
        and name in plausible
        and plausible[name]["accuracy"].value is not None
    ]
    shares = {
        task: [(k, one) for k, cell in of.items() if (one := cell["accuracy"].value) is not None]
        for task, of in summary.cells.items()
    }
    followed = shares.get(Task.CK, [])
    compared = len(followed) > 1 and followed[0][0] is EvidenceKind.NC
    lines = TEXTS.paragraphs(
        "headline",
        plausible.get(MODEL_SYSTEM),
        plausible.get(REMOVES),
        guards[:_MOST_GUARDS],
        followed if compared else [],
        summary.plausible_preference,
    )
    tasks = [(task.value, _names("tasks")[task], found) for task, found in shares.items() if found]
    return lines or TEXTS.paragraphs("shares", tasks) or TEXTS.paragraphs("nothing")


# -- Sections ---------------------------------------------------------------------------


def _table(
    name: str,
    lines: Mapping[str, Mapping[Any, Any]],
    columns: Mapping[str, Any],
    notes: str = "",
    *,
    differences: Container[Any] = (),
) -> Table | None:
    """Make a table; None without lines.

    Args:
        name: heading of the lines' names.
        lines: values of each line: estimates, or texts and counts.
        columns: key of the value by heading.
        notes: name of the notes' text.
        differences: keys of those that are no shares.
    """

    def cell(key: Any, value: object) -> Cell:
        if not isinstance(value, Interval):
            return Cell.of(value)
        return Cell.difference(value) if key in differences else Cell.estimate(value)

    cells = [
        (heading, [cell(key, line.get(key)) for line in lines.values()])
        for heading, key in columns.items()
    ]
    texts = TEXTS.terms(notes) if notes else ()
    return Table.from_columns(name, list(lines), cells, notes=texts) if lines else None


def _section(title: str, *blocks: Block | None) -> Section | None:
    """Make a section around a table; None without one."""
    return Section(title, blocks) if any(isinstance(one, Table) for one in blocks) else None


def _sections(summary: ConflictSummary) -> list[Section | None]:
    bands = {f"{decimal(one['low'], 2)}–{decimal(one['high'], 2)}": one for one in summary.bands}
    right = {"CK right: passage followed": "follows", "PK right: passage ignored": "ignores"}
    preferences = {_names("kinds")[kind]: found for kind, found in summary.preferences.items()}
    sides = {
        "Goes with the contradicting passage": "follows",
        "Names both answers": "both",
        "Names neither": "neither",
    }
    beside = _table("Beside the passage that agrees", preferences, sides, "preference")
    plausible = _table("Plausibility of the answer", bands, right, "plausibility")
    return [
        Section("What was tested", (TEXTS.text("tested"),)),
        _accuracy(summary),
        _suppression(summary),
        _section("Two passages side by side", beside),
        _section("By plausibility", plausible),
        _evidence(summary),
        *closing_sections(summary.run.manifest, summary.failures, "Calls"),
    ]


def _accuracy(summary: ConflictSummary) -> Section | None:
    kinds, cells = summary.run.kinds, summary.cells
    accuracy, confident = (
        {
            f"{task}: {_names('tasks')[task]}": {kind: cell[share] for kind, cell in of.items()}
            for task, of in cells.items()
            if share == "accuracy" or any(cell[share].n for cell in of.values())
        }
        for share in ("accuracy", "confident")
    )
    columns = {_names("kinds")[kind]: kind for kind in kinds}
    lost = {kind.value: kind for kind in kinds if kind is not EvidenceKind.NC}
    costs = {task.value: of for task, of in summary.differences.items()}
    plot, words = None, ("tasks", "Accuracy by task and evidence", TEXTS.text("tasks_caption"))
    if any(one["accuracy"].value is not None for of in cells.values() for one in of.values()):
        series = [
            (kind.value, *_MARKS[kind], [of[kind]["accuracy"] for of in cells.values()])
            for kind in kinds
        ]
        plot = dots(words, [task.value for task in cells], {"share right": series})
    return _section(
        "Accuracy by task and evidence",
        plot,
        _table("Task", accuracy, columns, "accuracy"),
        _section(
            "What contradiction costs",
            _table("NC minus …", costs, lost, "cost", differences=kinds),
        ),
        _section(
            "High-confidence subset",
            TEXTS.text("confident", summary.confident),
            _table("Task", confident, columns),
        ),
    )


def _of_system(kind: EvidenceKind, system: str) -> str:
    return f"{kind}, {_names('systems').get(system, f'guard {system}')}"


def _suppression(summary: ConflictSummary) -> Section | None:
    """Show instruction, removal and guards, by evidence; and what the guards decided."""
    lines = {
        _of_system(kind, system): found
        for kind, of in summary.suppressions.items()
        for system, found in of.items()
    }
    columns = {
        "PK right": "accuracy",
        "Closed book right": "closed_book",
        "Difference, points": "difference",
        "Suppression score": "score",
    }
    routes = {
        _of_system(kind, name): found
        for name, kinds in summary.routes.items()
        for kind, found in kinds.items()
        if kind in summary.run.kinds
    }
    headings = ("Passage kept", "Passage removed", "Abstained")
    decided = dict(zip(headings, (Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN), strict=True))
    differences = {"difference"}
    return _section(
        "Ignoring a passage, and removing it",
        _table("Evidence and system", lines, columns, "suppression", differences=differences),
        _section(
            "What the guards decided", _table("Evidence and guard", routes, decided, "routes")
        ),
    )


def _evidence(summary: ConflictSummary) -> Section:
    source = summary.run.manifest.settings["beliefs"]
    unused = tuple(
        f"{kind}: {reason}: {number}"
        for kind, found in summary.evidence.items()
        for reason, number in found["refused"].items()
    )
    why = [(TEXTS.text("why", source, key), str(n)) for key, n in summary.beliefs.items()]
    bullets = Prose(unused, bullets=True)
    made = {"Passages": "made", "Used": "used", "Checks disagree": "doubted"}
    made["Mean plausibility"] = "plausibility"
    lines = {
        _names("kinds")[kind]: {**found, "plausibility": decimal(found["plausibility"], 2)}
        for kind, found in summary.evidence.items()
    }
    return Section(
        "Beliefs and evidence",
        (
            TEXTS.text("beliefs", source),
            Facts(tuple(why)),
            _table("Kind", lines, made),
            Section("Passages that are not used", (bullets,), folded=True) if unused else None,
            Prose(explained("intervals", "clear"), small=True),
        ),
    )
