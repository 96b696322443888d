"""Reading a run of this suite: everything is checked before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ....guard.errors import InputError
from ...run import Run
from .._parts import MODEL_SYSTEM
from ._items import EvidenceKind, Task
from ._plan import Planned, planned
from ._rows import (
    BELIEFS,
    EVIDENCE,
    HINT,
    INSTANCES,
    ROWS,
    SYSTEMS,
    BeliefRow,
    ConflictManifest,
    ConflictRow,
    EvidenceRow,
    Instance,
    row_id,
)


@dataclass(frozen=True, slots=True)
class ConflictRun:
    """A checked run.

    Attributes:
        manifest: the checked fields.
        beliefs: what was found of each question, in order.
        evidence: passages, those that are not used included.
        instances: questions that the tasks were asked of.
        rows: in the order in which they were stored; an unfinished run has fewer than
            `planned_rows`.
    """

    manifest: ConflictManifest
    beliefs: tuple[BeliefRow, ...]
    evidence: tuple[EvidenceRow, ...]
    instances: tuple[Instance, ...]
    rows: tuple[ConflictRow, ...]

    @property
    def tasks(self) -> tuple[Task, ...]:
        """That were asked for, in the order of `Task`."""
        return tuple(task for task in Task if task in self.manifest.settings["tasks"])

    @property
    def kinds(self) -> tuple[EvidenceKind, ...]:
        """Of evidence, that were asked for, in order."""
        return tuple(kind for kind in EvidenceKind if kind in self.manifest.settings["kinds"])

    @property
    def guards(self) -> tuple[str, ...]:
        """Names of the guards."""
        return self.manifest.systems[len(SYSTEMS) :]

    @property
    def plan(self) -> tuple[Planned, ...]:
        """What the model was to be asked."""
        return tuple(planned(self.instances, self.tasks, self.kinds))

    @property
    def planned_rows(self) -> int:
        """Rows of the finished run."""
        return len(self.planned_ids)

    @property
    def planned_ids(self) -> frozenset[str]:
        """Ids of the rows of the finished run."""
        plan = self.plan
        guarded = [one for one in plan if one.task is Task.PK and one.system == MODEL_SYSTEM]
        return frozenset(one.row_id for one in plan) | {
            row_id(name, one.task, one.evidence, one.instance.key)
            for name in self.guards
            for one in guarded
        }


def conflict_run(run: Run) -> ConflictRun:
    """Read a run of this suite, finished or not.

    Raises:
        InputError: there is no row yet, or a file is missing, broken or written by a newer
            knowgate; names file and line.
    """
    root, manifest = run.folder, cast(ConflictManifest, run.manifest)
    read = ConflictRun(
        manifest,
        tuple(run[BELIEFS].rows()),
        tuple(run[EVIDENCE].rows()),
        tuple(run[INSTANCES].rows()) if INSTANCES.path(root).exists() else (),
        tuple(run[ROWS].rows()),
    )
    _check(read, root)
    return read


def _check(run: ConflictRun, root: Path) -> None:
    known = run.planned_ids
    for row in run.rows:
        if row_id(row.system, row.task, row.evidence, row.key) not in known:
            raise InputError(
                f"row {row.row_id[:80]!r} answers no question of the run",
                where=str(root / "rows"),
                hint=HINT,
            )
    if not run.rows and (run.instances or not (root / "instances.jsonl").exists()):
        raise InputError(
            "the run is not finished (no task was asked yet)",
            where=str(root),
            hint="start the same `knowgate eval conflict` again to continue it",
        )
