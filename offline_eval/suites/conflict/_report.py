"""The report of a run of this suite: its sentences and sections.

run ─► conflict_run ─► ConflictRun ─► conflict_document ─► a file per format
"""

from __future__ import annotations

from pathlib import Path

from ...report.document import Document
from ...report.plots import Colour, Plot, dots
from ...report.prose import Templates
from ...run.grouping import most_frequent
from ..parts import run_document
from ._scoring import ConflictRun
from .items import CONFLICTS, EvidenceKind

TEXTS = Templates(Path(__file__).parent / "report.txt")
_MARKS = {
    EvidenceKind.NC: ("o", Colour.BLUE),
    EvidenceKind.HPC: ("s", Colour.VERMILION),
    EvidenceKind.HPCE: ("D", Colour.PURPLE),
    EvidenceKind.LPC: ("^", Colour.AMBER),
}


def conflict_document(run: ConflictRun) -> Document:
    """Make the report of a summarised run."""
    tasks, cells = TEXTS.meanings("tasks"), run.cells
    accuracy, confident = (
        {
            f"{task}: {tasks[task]}": {kind: cell[share] for kind, cell in of.items()}
            for task, of in cells.items()
            if share == "accuracy" or any(cell[share].n for cell in of.values())
        }
        for share in ("accuracy", "confident")
    )
    named = TEXTS.meanings("kinds")
    every = [one for of in cells.values() for one in of.values()]
    facts = {
        "failed": sum(run.failures.values()),
        "cut": sum(row.cut for row in run.rows if row.system not in run.guards),
        "unread": sum(cell["unread"] for cell in every),
        "beliefs": most_frequent(row.why for row in run.beliefs),
        "tasks": tasks,
        "plot": _plot(run),
        "accuracy": accuracy,
        "confident": confident,
        "suppressed": {
            _of_system(kind, system): found
            for kind, of in run.suppressions.items()
            for system, found in of.items()
        },
        "decided": {
            _of_system(kind, name): found
            for name, kinds in run.routes.items()
            for kind, found in kinds.items()
            if kind in run.kinds
        },
        "bands": {f"{one['low']:.2f}–{one['high']:.2f}": one for one in run.bands},
        "preferences": {named[kind]: found for kind, found in run.preferences.items()},
        "evidence": {named[kind]: found for kind, found in run.passages.items()},
        "columns": [(named[kind], kind) for kind in run.kinds],
        "lost": [(kind.value, kind, "points") for kind in CONFLICTS if kind in run.kinds],
    }
    return run_document("conflict", TEXTS, run.manifest, run, facts)


def _plot(run: ConflictRun) -> Plot | None:
    cells = run.cells
    if all(one["accuracy"].value is None for of in cells.values() for one in of.values()):
        return None
    words = "tasks", "Accuracy by task and evidence", TEXTS.text("tasks_caption")
    series = [
        (kind.value, *_MARKS[kind], [of[kind]["accuracy"] for of in cells.values()])
        for kind in run.kinds
    ]
    return dots(words, [task.value for task in cells], {"share right": series})


def _of_system(kind: EvidenceKind, system: str) -> str:
    return f"{kind}, {TEXTS.meanings('systems').get(system, f'guard {system}')}"
