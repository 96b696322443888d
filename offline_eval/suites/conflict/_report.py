"""The report of a run of this suite: its sentences and sections.

run ─► conflict_run ─► ConflictSummary ─► conflict_document ─► a file per format
"""

from __future__ import annotations

from pathlib import Path

from ...report.document import Document, Section
from ...report.plots import Colour, Plot, dots
from ...report.prose import Templates
from ..parts import MODEL_SYSTEM, run_sections
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


def _sections(summary: ConflictSummary) -> list[Section]:
    tasks, cells = _names("tasks"), summary.cells
    accuracy, confident = (
        {
            f"{task}: {tasks[task]}": {kind: cell[share] for kind, cell in of.items()}
            for task, of in cells.items()
            if share == "accuracy" or any(cell[share].n for cell in of.values())
        }
        for share in ("accuracy", "confident")
    )
    kinds = summary.run.kinds
    named, against = _names("kinds"), [kind for kind in kinds if kind is not EvidenceKind.NC]
    lines = {
        "accuracy": accuracy,
        "confident": confident,
        "suppressed": {
            _of_system(kind, system): found
            for kind, of in summary.suppressions.items()
            for system, found in of.items()
        },
        "decided": {
            _of_system(kind, name): found
            for name, kinds in summary.routes.items()
            for kind, found in kinds.items()
            if kind in kinds
        },
        "bands": {f"{one['low']:.2f}–{one['high']:.2f}": one for one in summary.bands},
        "preferences": {named[kind]: found for kind, found in summary.preferences.items()},
        "evidence": {named[kind]: found for kind, found in summary.evidence.items()},
    }
    columns = [(named[kind], kind) for kind in kinds]
    lost = [(kind.value, kind, "points") for kind in against]
    given = summary, lines, _plot(summary), columns, lost
    return run_sections(TEXTS, summary.run.manifest, *given)


def _plot(summary: ConflictSummary) -> Plot | None:
    cells = summary.cells
    if all(one["accuracy"].value is None for of in cells.values() for one in of.values()):
        return None
    words = "tasks", "Accuracy by task and evidence", TEXTS.text("tasks_caption")
    series = [
        (kind.value, *_MARKS[kind], [of[kind]["accuracy"] for of in cells.values()])
        for kind in summary.run.kinds
    ]
    return dots(words, [task.value for task in cells], {"share right": series})


def _of_system(kind: EvidenceKind, system: str) -> str:
    return f"{kind}, {_names('systems').get(system, f'guard {system}')}"
