"""Read a run, checked, and compute accuracy, preference and suppression."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...._version import __version__
from ....calibration import Interval
from ....guard.decision import Route
from ....guard.errors import InputError
from ...judging.multiple_choice import MultipleChoice
from ...report.document import Document, as_json
from ...run import Run
from ...run.grouping import error_types, most_frequent
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
    ConflictManifest,
    ConflictRow,
    EvidenceRow,
    Instance,
    planned,
    row_id,
)
from .evidence import disagree
from .items import CHOICE_TASKS, CONFLICTS, EvidenceKind, Task

_Place = tuple[str, Task, EvidenceKind | None]


@dataclass(frozen=True)
class ConflictRun:
    """A checked run.

    Attributes:
        manifest: the checked fields.
        beliefs: what was found of each question, in order.
        evidence: passages, those that are not used included.
        instances: questions that the tasks were asked of.
        rows: in the order in which they were stored; an unfinished run has fewer than
            `planned_ids`.
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

    @cached_property
    def planned_ids(self) -> frozenset[str]:
        """Ids of the rows of the finished run."""
        plan = list(planned(self.instances, self.tasks, self.kinds))
        guarded = [one for one in plan if one.task is Task.PK and one.system == MODEL_SYSTEM]
        return frozenset(one.row_id for one in plan) | {
            row_id(name, one.task, one.evidence, one.instance.key)
            for name in self.guards
            for one in guarded
        }

    @cached_property
    def at(self) -> Mapping[_Place, Mapping[str, ConflictRow]]:
        """Rows by system, task and evidence, then by question."""
        found: dict[_Place, dict[str, ConflictRow]] = defaultdict(dict)
        for row in self.rows:
            found[row.system, row.task, row.evidence][row.key] = row
        return found

    def right(
        self, task: Task, kind: EvidenceKind | None, system: str = MODEL_SYSTEM
    ) -> dict[str, bool]:
        """Whether a system was right, by question; rows with errors are left out."""
        rows = self.at.get((system, task, kind), {})
        return {key: row.correct for key, row in rows.items() if row.correct is not None}

    def sides(self, kind: EvidenceKind) -> list[tuple[ConflictRow, bool | None]]:
        """Return what RAG said over a kind that contradicts, and which side each reply takes."""
        instances = {instance.key: instance for instance in self.instances}
        rows = self.at.get((MODEL_SYSTEM, Task.RAG, kind), {})
        return [(row, side_of(row, instances[key])) for key, row in rows.items() if not row.error]


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


class AccuracyCell:
    """How often a task was done rightly over one kind of evidence.

    Args:
        run: checked.
        task: that was asked.
        evidence: kind of the passages.
        confident: questions of the high-confidence subset.

    Attributes:
        accuracy: Wilson interval over questions; rows with errors are left out.
        confident: the same on questions all of whose tasks are right over NC.
        unread: replies from which no letter could be read; they count as wrong.
        errors: rows without a reply.
        cut: rows whose passages were shortened.
    """

    def __init__(
        self, run: ConflictRun, task: Task, evidence: EvidenceKind, confident: Collection[str]
    ) -> None:
        rows = run.at.get((MODEL_SYSTEM, task, evidence), {}).values()
        right = run.right(task, evidence)
        errors = sum(row.error is not None for row in rows)
        unread = sum(row.letters is None for row in rows) - errors
        self.task, self.evidence, self.accuracy = task, evidence, _share(right.values())
        self.confident = _share(value for key, value in right.items() if key in confident)
        self.unread, self.errors = unread if task in CHOICE_TASKS else 0, errors
        self.cut = sum(row.cut for row in rows)


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


class Suppression:
    """How far a system keeps to its own knowledge against a passage that contradicts it.

    Args:
        system: `model`, told to ignore the passage; `guard_removes`; or a guard.
        evidence: that contradicts.
        right: by question, whether PK is right.
        alone: the same without passage or instruction.

    Attributes:
        accuracy: of PK.
        closed_book: accuracy of the same questions without passage or instruction.
        score: share of the questions right without a passage that stay right; 1: the
            passage is ignored, 0: it always wins.
        difference: accuracy minus that of closed book, paired.
    """

    def __init__(
        self,
        system: str,
        evidence: EvidenceKind,
        right: Mapping[str, bool],
        alone: Mapping[str, bool],
    ) -> None:
        right = {key: value for key, value in right.items() if key in alone}
        self.system, self.evidence = system, evidence
        self.accuracy = _share(right.values())
        self.closed_book = _share(alone[key] for key in right)
        self.score = _share(value for key, value in right.items() if alone[key])
        self.difference = _difference(right, alone)


def accuracy_cells(run: ConflictRun) -> list[AccuracyCell]:
    """Every task over every kind of evidence, in their orders."""
    confident = confident_keys(run)
    return [AccuracyCell(run, task, kind, confident) for task in run.tasks for kind in run.kinds]


def confident_keys(run: ConflictRun) -> frozenset[str]:
    """Questions whose four-option tasks are all right over NC: the high-confidence subset.

    Every such task of the run must have been asked, without an error; there is none where the
    run has no such task.
    """
    right = [run.right(task, EvidenceKind.NC) for task in run.tasks if task in CHOICE_TASKS]
    keys = right[0] if right else {}
    return frozenset(key for key in keys if all(found.get(key) for found in right))


def preferences(run: ConflictRun) -> list[Preference]:
    """RAG over each kind that contradicts; empty where RAG was not asked."""
    found = []
    for kind in run.kinds:
        sides = run.sides(kind) if kind in CONFLICTS else []
        if not sides:
            continue
        letters = [(set(row.letters or ()), set(row.right)) for row, _ in sides]
        found.append(
            Preference(
                kind,
                _share(side for _, side in sides if side is not None),
                _share(right <= taken for taken, right in letters),
                _share(not right & taken for taken, right in letters),
            )
        )
    return found


def plausible_preference(run: ConflictRun) -> Interval:
    """How much more often RAG goes with a plausible contradiction than with an implausible one.

    Over questions whose replies take a side in both, paired; undefined without such.
    """
    plausible, absurd = (
        {row.key: side for row, side in run.sides(kind) if side is not None}
        for kind in (EvidenceKind.HPC, EvidenceKind.LPC)
    )
    return _difference(plausible, absurd)


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
    alone, removed = (run.right(Task.PK, None, system) for system in (CLOSED_BOOK, REMOVES))
    found = []
    for kind in run.kinds:
        if kind not in CONFLICTS:
            continue
        with_kind = {one.key for one in run.instances if kind in one.evidence}
        for system in (MODEL_SYSTEM, REMOVES, *run.guards):
            right = run.right(Task.PK, kind, system)
            if system == REMOVES:
                right = {key: value for key, value in removed.items() if key in with_kind}
            if right:
                found.append(Suppression(system, kind, right, alone))
    return found


def guard_routes(run: ConflictRun) -> dict[str, dict[EvidenceKind, dict[Route, int]]]:
    """What each guard did with PK's passages: how often it followed, removed and abstained.

    By guard, kind of evidence and route; decisions that failed are in none.
    """
    found: dict[str, dict[EvidenceKind, dict[Route, int]]] = {name: {} for name in run.guards}
    for name in run.guards:
        for kind in EvidenceKind:
            rows = run.at.get((name, Task.PK, kind), {}).values()
            counts = Counter(row.route for row in rows if row.route is not None)
            if counts:
                found[name][kind] = {route: counts[route] for route in Route}
    return found


def evidence_differences(run: ConflictRun) -> list[tuple[Task, EvidenceKind, Interval]]:
    """How much a task loses from NC to each kind that contradicts, paired by question."""
    found = []
    for task in run.tasks:
        base = run.right(task, EvidenceKind.NC)
        for kind in CONFLICTS:
            values = _difference(base, run.right(task, kind))
            if values.n:
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
        inside = [
            place
            for place, measured in value.items()
            if low <= measured and (measured < high or number == bands - 1)
        ]
        shares = [_band_share(run, task, inside) for task in (Task.CK, Task.PK)]
        found.append(PlausibilityBand(low, high, *shares))
    return found


def _band_share(
    run: ConflictRun, task: Task, inside: Collection[tuple[str, EvidenceKind]]
) -> Interval:
    rows = [run.at.get((MODEL_SYSTEM, task, kind), {}).get(key) for key, kind in inside]
    return _share(row.correct for row in rows if row is not None and row.correct is not None)


def _share(right: Iterable[bool]) -> Interval:
    values = list(right)
    return Interval.wilson(sum(values), len(values))


def _difference(first: Mapping[str, bool], second: Mapping[str, bool]) -> Interval:
    """Return the paired difference of two shares over the questions that both have."""
    keys = [key for key in first if key in second]
    return Interval.paired_difference([first[key] for key in keys], [second[key] for key in keys])


class EvidenceCount:
    """Passages of one kind.

    Args:
        run: checked.
        kind: of the passages.

    Attributes:
        made: that there are.
        used: that passed all checks.
        doubted: on which checks or judges disagree.
        plausibility: mean of the used ones in [0, 1], None where it was not measured.
        refused: reason → number, most frequent first; those that could not be made included.
    """

    def __init__(self, run: ConflictRun, kind: EvidenceKind) -> None:
        rows = [row for row in run.evidence if row.kind is kind]
        values = [row.plausibility for row in rows if row.accepted and row.plausibility is not None]
        self.kind, self.made = kind, sum(bool(row.passage) for row in rows)
        self.used = sum(row.accepted for row in rows)
        self.doubted = sum(disagree(row.checks) for row in rows)
        self.plausibility = sum(values) / len(values) if values else None
        self.refused = most_frequent(row.reason for row in rows if not row.accepted)


class ConflictSummary:
    """All numbers of a run; the same run gives the same numbers.

    Args:
        run: what they are computed from.

    Attributes:
        beliefs: why → number of questions.
        evidence: by kind.
        cells: accuracy by task and evidence.
        differences: NC minus each contradicting kind, by task.
        preferences: of RAG.
        plausible_preference: HPC minus LPC.
        suppressions: by system and kind.
        routes: by guard, kind and route: what guards did with PK's passages.
        bands: by measured plausibility.
        confident: questions in the high-confidence subset.
        letters: how often each letter is right among rows of one right answer.
        failures: rows with an error, by type, most frequent first.
    """

    def __init__(self, run: ConflictRun) -> None:
        self.run = run
        self.beliefs = most_frequent(row.why for row in run.beliefs)
        self.evidence = [EvidenceCount(run, kind) for kind in run.kinds]
        self.cells, self.differences = accuracy_cells(run), evidence_differences(run)
        self.preferences, self.plausible_preference = preferences(run), plausible_preference(run)
        self.suppressions, self.routes = suppressions(run), guard_routes(run)
        self.bands, self.confident = plausibility_bands(run), len(confident_keys(run))
        letters = Counter(row.right[0] for row in run.rows if len(row.right) == 1)
        self.letters = dict(sorted(letters.items()))
        # A guard that keeps the model's reply keeps its failure, which is no second call.
        own = [row for row in run.rows if row.route is None]
        self.failures = error_types((*own, *run.beliefs, *run.evidence))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        manifest = self.run.manifest
        accuracy: dict[str, dict[str, Any]] = {}
        for cell in self.cells:
            fields = as_json(vars(cell))
            del fields["task"], fields["evidence"]
            found_cell = {**fields.pop("accuracy"), **fields}
            accuracy.setdefault(cell.task.value, {})[cell.evidence.value] = found_cell
        suppression: dict[str, dict[str, Any]] = {}
        for found in self.suppressions:
            suppression.setdefault(found.system, {})[found.evidence.value] = _intervals(found)
        return {
            "schema_version": Document.SCHEMA_VERSION,
            "suite": manifest.suite,
            "created_by": f"knowgate {__version__}",
            "run_created_by": manifest.created_by,
            "questions": manifest.questions,
            "instances": len(self.run.instances),
            "high_confidence": self.confident,
            "rows": len(self.run.rows),
            "rows_planned": len(self.run.planned_ids),
            "failures": dict(self.failures),
            "beliefs": dict(self.beliefs),
            "evidence": {
                one.kind.value: {k: v for k, v in vars(one).items() if k != "kind"}
                for one in self.evidence
            },
            "accuracy": accuracy,
            "lost_to": {
                f"{task.value}_{kind.value}": interval.to_dict()
                for task, kind, interval in self.differences
            },
            "preference": {one.evidence.value: _intervals(one) for one in self.preferences},
            "plausible_preference": self.plausible_preference.to_dict(),
            "suppression": suppression,
            "guard_routes": {
                name: {
                    kind.value: {route.value: number for route, number in counts.items()}
                    for kind, counts in kinds.items()
                }
                for name, kinds in self.routes.items()
            },
            "plausibility": [asdict(band) for band in self.bands],
            "right_letters": dict(self.letters),
            "quirks": list(manifest.quirks),
            "settings": manifest.settings,
            "inputs": [file.model_dump() for file in manifest.inputs],
        }


def _intervals(one: Preference | Suppression) -> dict[str, Any]:
    fields = vars(one) if isinstance(one, Suppression) else asdict(one)
    found = {name: as_json(value) for name, value in fields.items()}
    return {name: value for name, value in found.items() if isinstance(value, dict)}
