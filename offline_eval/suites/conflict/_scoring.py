"""Read a run, checked, and compute accuracy, preference and suppression."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from ....calibration import Interval
from ....guard.decision import Route
from ....guard.errors import InputError
from ...judging.multiple_choice import MultipleChoice
from ...run import Run
from ..parts import MODEL_SYSTEM
from ._rows import (
    BELIEFS,
    CLOSED_BOOK,
    EVIDENCE,
    HINT,
    INSTANCES,
    REMOVES,
    ROWS,
    SYSTEMS,
    BeliefRow,
    Case,
    ConflictManifest,
    ConflictRow,
    EvidenceRow,
    Instance,
    planned,
    row_id,
)
from .items import CHOICE_TASKS, CONFLICTS, EvidenceKind, Task


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
    def plan(self) -> tuple[Case, ...]:
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


@dataclass(frozen=True, slots=True)
class AccuracyCell:
    """How often a task was done rightly over one kind of evidence.

    Attributes:
        accuracy: Wilson interval over questions; rows with errors are left out.
        confident: the same on questions all of whose tasks are right over NC.
        unread: replies from which no letter could be read; they count as wrong.
        errors: rows without a reply.
        cut: rows whose passages were shortened.
    """

    task: Task
    evidence: EvidenceKind
    accuracy: Interval
    confident: Interval
    unread: int
    errors: int
    cut: int


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of two passages RAG goes with, over one kind of contradicting evidence.

    Attributes:
        follows: share of the replies that take one of the two sides which take that of the
            contradicting passage. Where options were scored, the likelier side is taken.
        both: share of all replies that name both answers.
        neither: share of all replies that name none of them.
    """

    evidence: EvidenceKind
    follows: Interval
    both: Interval
    neither: Interval


@dataclass(frozen=True, slots=True)
class Suppression:
    """How far a system keeps to its own knowledge against a passage that contradicts it.

    Attributes:
        system: `model`, told to ignore the passage; `guard_removes`; or a guard.
        evidence: that contradicts.
        accuracy: of PK.
        closed_book: accuracy of the same questions without passage or instruction.
        score: share of the questions right without a passage that stay right; 1: the
            passage is ignored, 0: it always wins.
        difference: accuracy minus that of closed book, paired.
    """

    system: str
    evidence: EvidenceKind
    accuracy: Interval
    closed_book: Interval
    score: Interval
    difference: Interval


def accuracy_cells(run: ConflictRun) -> list[AccuracyCell]:
    """Every task over every kind of evidence, in their orders."""
    confident = confident_keys(run)
    cells = []
    for task in run.tasks:
        for kind in run.kinds:
            rows = [
                row
                for row in run.rows
                if row.system == MODEL_SYSTEM and row.task is task and row.evidence is kind
            ]
            sure = [row for row in rows if row.key in confident]
            cells.append(
                AccuracyCell(
                    task=task,
                    evidence=kind,
                    accuracy=_share(rows),
                    confident=_share(sure),
                    unread=sum(row.letters is None and _choice(row) for row in rows),
                    errors=sum(row.error is not None for row in rows),
                    cut=sum(row.cut for row in rows),
                )
            )
    return cells


def confident_keys(run: ConflictRun) -> frozenset[str]:
    """Questions whose four-option tasks are all right over NC: the high-confidence subset.

    Every such task of the run must have been asked, without an error; there is none where the
    run has no such task.
    """
    wanted = {task for task in run.tasks if task in CHOICE_TASKS}
    right: dict[str, set[Task]] = {}
    for row in run.rows:
        if row.system == MODEL_SYSTEM and row.evidence is EvidenceKind.NC and row.correct:
            right.setdefault(row.key, set()).add(row.task)
    return frozenset(key for key, tasks in right.items() if wanted and wanted <= tasks)


def preferences(run: ConflictRun) -> list[Preference]:
    """RAG over each kind that contradicts; empty where RAG was not asked."""
    instances = {instance.key: instance for instance in run.instances}
    found = []
    for kind in run.kinds:
        rows = [
            row
            for row in run.rows
            if row.task is Task.RAG and row.evidence is kind and row.error is None
        ]
        if kind not in CONFLICTS or not rows:
            continue
        sides = [side_of(row, instances[row.key]) for row in rows]
        chosen = [side for side in sides if side is not None]
        letters = [(set(row.letters or ()), set(row.right)) for row in rows]
        both = sum(right <= taken for taken, right in letters)
        neither = sum(not right & taken for taken, right in letters)
        found.append(
            Preference(
                kind,
                Interval.wilson(sum(chosen), len(chosen)),
                Interval.wilson(both, len(rows)),
                Interval.wilson(neither, len(rows)),
            )
        )
    return found


def plausible_preference(run: ConflictRun) -> Interval:
    """How much more often RAG goes with a plausible contradiction than with an implausible one.

    Over questions whose replies take a side in both, paired; undefined without such.
    """
    instances = {instance.key: instance for instance in run.instances}
    sides: dict[EvidenceKind, dict[str, bool]] = {}
    for row in run.rows:
        if row.task is Task.RAG and row.evidence in CONFLICTS and row.error is None:
            side = side_of(row, instances[row.key])
            if side is not None:
                sides.setdefault(row.evidence, {})[row.key] = side
    plausible, absurd = sides.get(EvidenceKind.HPC, {}), sides.get(EvidenceKind.LPC, {})
    keys = [key for key in plausible if key in absurd]
    return Interval.paired_difference(
        [plausible[key] for key in keys], [absurd[key] for key in keys]
    )


def side_of(row: ConflictRow, instance: Instance) -> bool | None:
    """True where a reply takes the contradicting side, False for the other; None for neither
    or both.
    """
    own = next(
        letter
        for letter, option in zip(MultipleChoice.LETTERS, instance.options, strict=False)
        if option.role == "belief"
    )
    other = next((letter for letter in row.right if letter != own), None)
    if other is None:
        return None
    if row.likelihoods is not None:
        values = dict(zip(MultipleChoice.LETTERS, row.likelihoods, strict=False))
        return None if values[other] == values[own] else values[other] > values[own]
    taken = {own, other} & set(row.letters or ())
    return other in taken if len(taken) == 1 else None


def suppressions(run: ConflictRun) -> list[Suppression]:
    """Per system and kind that contradicts; empty where PK was not asked."""
    pk = [row for row in run.rows if row.task is Task.PK and row.correct is not None]
    alone = {row.key: bool(row.correct) for row in pk if row.system == CLOSED_BOOK}
    removed = {row.key: bool(row.correct) for row in pk if row.system == REMOVES}
    found = []
    for kind in run.kinds:
        if kind not in CONFLICTS:
            continue
        with_kind = {one.key for one in run.instances if kind in one.evidence}
        values: dict[str, Mapping[str, bool]] = {
            system: {
                row.key: bool(row.correct)
                for row in pk
                if row.system == system and row.evidence is kind
            }
            for system in (MODEL_SYSTEM, *run.guards)
        }
        values[REMOVES] = {key: right for key, right in removed.items() if key in with_kind}
        found += [
            _suppression(system, kind, values[system], alone)
            for system in (MODEL_SYSTEM, REMOVES, *run.guards)
            if values[system]
        ]
    return found


def guard_routes(run: ConflictRun) -> dict[str, dict[EvidenceKind, dict[Route, int]]]:
    """What each guard did with PK's passages: how often it followed, removed and abstained.

    By guard, kind of evidence and route; decisions that failed are in none.
    """
    found: dict[str, dict[EvidenceKind, dict[Route, int]]] = {name: {} for name in run.guards}
    for row in run.rows:
        if row.route is not None and row.evidence is not None and row.system in found:
            routes = found[row.system].setdefault(row.evidence, dict.fromkeys(Route, 0))
            routes[row.route] += 1
    return found


def _suppression(
    system: str, kind: EvidenceKind, right: Mapping[str, bool], alone: Mapping[str, bool]
) -> Suppression:
    keys = [key for key in right if key in alone]
    with_it, without = [right[key] for key in keys], [alone[key] for key in keys]
    known = [key for key in keys if alone[key]]
    return Suppression(
        system=system,
        evidence=kind,
        accuracy=Interval.wilson(sum(with_it), len(keys)),
        closed_book=Interval.wilson(sum(without), len(keys)),
        score=Interval.wilson(sum(right[key] for key in known), len(known)),
        difference=Interval.paired_difference(with_it, without),
    )


def evidence_differences(run: ConflictRun) -> list[tuple[Task, EvidenceKind, Interval]]:
    """How much a task loses from NC to each kind that contradicts, paired by question."""
    found = []
    for task in run.tasks:
        right: dict[EvidenceKind, dict[str, bool]] = {}
        for row in run.rows:
            if row.system == MODEL_SYSTEM and row.task is task and row.correct is not None:
                assert row.evidence is not None  # only closed book and its like have none
                right.setdefault(row.evidence, {})[row.key] = row.correct
        base = right.get(EvidenceKind.NC, {})
        for kind in CONFLICTS:
            keys = [key for key in right.get(kind, {}) if key in base]
            if keys:
                values = Interval.paired_difference(
                    [base[key] for key in keys], [right[kind][key] for key in keys]
                )
                found.append((task, kind, values))
    return found


@dataclass(frozen=True, slots=True)
class PlausibilityBand:
    """Accuracy by the answer's measured plausibility, over contradicting passages.

    Attributes:
        low: lower end of the band.
        high: upper end; the last band holds it.
        follows: share of CK right: the passage is followed.
        ignores: share of PK right: it is ignored.
    """

    low: float
    high: float
    follows: Interval
    ignores: Interval


def plausibility_bands(run: ConflictRun, bands: int = 4) -> list[PlausibilityBand]:
    """Equal bands of [0, 1]; empty where plausibility was not measured."""
    value = {
        (instance.key, kind): shown.plausibility
        for instance in run.instances
        for kind, shown in instance.evidence.items()
        if kind in (EvidenceKind.HPC, EvidenceKind.LPC) and shown.plausibility is not None
    }
    if not value:
        return []
    edges = np.linspace(0.0, 1.0, bands + 1)
    found = []
    for number in range(bands):
        low, high = float(edges[number]), float(edges[number + 1])
        inside = {
            place for place, v in value.items()
            if low <= v and (v < high or number == bands - 1)
        }  # fmt: skip
        shares = [_band_share(run, task, inside) for task in (Task.CK, Task.PK)]
        found.append(PlausibilityBand(low, high, *shares))
    return found


def _band_share(
    run: ConflictRun, task: Task, inside: Collection[tuple[str, EvidenceKind]]
) -> Interval:
    return _share(
        [
            row
            for row in run.rows
            if row.system == MODEL_SYSTEM
            and row.task is task
            and row.evidence is not None
            and (row.key, row.evidence) in inside
        ]
    )


def _share(rows: Sequence[ConflictRow]) -> Interval:
    told = [row for row in rows if row.correct is not None]
    return Interval.wilson(sum(bool(row.correct) for row in told), len(told))


def _choice(row: ConflictRow) -> bool:
    return row.task in CHOICE_TASKS and row.error is None
