"""Read a run, checked, and compute accuracy, preference and suppression."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from ....calibration import Interval
from ....guard.decision import Route
from ....guard.errors import InputError
from ...judging.multiple_choice import MultipleChoice
from ...report.document import as_json
from ...run import Run
from ...run.grouping import error_types, most_frequent
from ..parts import MODEL_SYSTEM, run_values
from ._rows import (
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
from .beliefs import BELIEFS
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


@dataclass(frozen=True, slots=True)
class Measured:
    """Shares of one line of the report, Wilson intervals over questions with a reply.

    Attributes:
        evidence: kind of the passages.
        shares: by name; a difference is paired by question.
        task: that was asked; None where the line is about one task anyway.
        system: that was asked, or stood in front.
        counts: rows without a reply (`errors`), replies from which no letter could be read
            (`unread`; they count as wrong), rows whose passages were shortened (`cut`).
    """

    evidence: EvidenceKind
    shares: Mapping[str, Interval]
    task: Task | None = None
    system: str = MODEL_SYSTEM
    counts: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Interval:
        """The share of that name."""
        return self.shares[name]


def accuracy_cells(run: ConflictRun) -> list[Measured]:
    """Every task over every kind of evidence, in their orders.

    `accuracy`, and `confident`: the same on questions of the high-confidence subset.
    """
    confident, found = confident_keys(run), []
    for task in run.tasks:
        for kind in run.kinds:
            rows = run.at.get((MODEL_SYSTEM, task, kind), {}).values()
            right = run.right(task, kind)
            errors = sum(row.error is not None for row in rows)
            unread = sum(row.letters is None for row in rows) - errors
            shares = {
                "accuracy": _share(right.values()),
                "confident": _share(value for key, value in right.items() if key in confident),
            }
            counts = {
                "unread": unread if task in CHOICE_TASKS else 0,
                "errors": errors,
                "cut": sum(row.cut for row in rows),
            }
            found.append(Measured(kind, shares, task, counts=counts))
    return found


def confident_keys(run: ConflictRun) -> frozenset[str]:
    """Questions whose four-option tasks are all right over NC: the high-confidence subset.

    Every such task of the run must have been asked, without an error; there is none where the
    run has no such task.
    """
    right = [run.right(task, EvidenceKind.NC) for task in run.tasks if task in CHOICE_TASKS]
    keys = right[0] if right else {}
    return frozenset(key for key in keys if all(found.get(key) for found in right))


def preferences(run: ConflictRun) -> list[Measured]:
    """RAG over each kind that contradicts; empty where RAG was not asked.

    `follows`: of the replies that take one of the two sides those that take that of the
    contradicting passage; where options were scored, the likelier side is taken. `both` and
    `neither`: of all replies those that name both answers, or none of them.
    """
    found = []
    for kind in run.kinds:
        sides = run.sides(kind) if kind in CONFLICTS else []
        if sides:
            letters = [(set(row.letters or ()), set(row.right)) for row, _ in sides]
            shares = {
                "follows": _share(side for _, side in sides if side is not None),
                "both": _share(right <= taken for taken, right in letters),
                "neither": _share(not right & taken for taken, right in letters),
            }
            found.append(Measured(kind, shares))
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


def suppressions(run: ConflictRun) -> list[Measured]:
    """Per system and kind that contradicts; empty where PK was not asked.

    `accuracy` of PK; `closed_book`: of the same questions without passage or instruction;
    `score`: of the questions right without a passage those that stay right (1: the passage is
    ignored, 0: it always wins); `difference`: accuracy minus that of closed book.
    """
    alone, removed = (run.right(Task.PK, None, system) for system in (CLOSED_BOOK, REMOVES))
    found = []
    for kind in (kind for kind in run.kinds if kind in CONFLICTS):
        with_kind = {one.key for one in run.instances if kind in one.evidence}
        for system in (MODEL_SYSTEM, REMOVES, *run.guards):
            right = run.right(Task.PK, kind, system)
            if system == REMOVES:
                right = {key: value for key, value in removed.items() if key in with_kind}
            if right:
                both = {key: value for key, value in right.items() if key in alone}
                shares = {
                    "accuracy": _share(both.values()),
                    "closed_book": _share(alone[key] for key in both),
                    "score": _share(value for key, value in both.items() if alone[key]),
                    "difference": _difference(both, alone),
                }
                found.append(Measured(kind, shares, system=system))
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
    inside: list[list[tuple[str, EvidenceKind]]] = [[] for _ in range(bands)]
    for instance in run.instances:
        for kind, shown in instance.evidence.items():
            if kind in (EvidenceKind.HPC, EvidenceKind.LPC) and shown.plausibility is not None:
                band = min(int(shown.plausibility * bands), bands - 1)
                inside[band].append((instance.key, kind))

    def share(task: Task, places: Sequence[tuple[str, EvidenceKind]]) -> Interval:
        right = (run.right(task, kind).get(key) for key, kind in places)
        return _share(one for one in right if one is not None)

    return [
        PlausibilityBand(
            band / bands, (band + 1) / bands, share(Task.CK, places), share(Task.PK, places)
        )
        for band, places in enumerate(inside)
        if any(inside)
    ]


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
        accuracy: dict[str, dict[str, Any]] = {}
        for cell in self.cells:
            assert cell.task is not None
            own = {**cell["accuracy"].to_dict(), "confident": cell["confident"].to_dict()}
            own |= cell.counts
            accuracy.setdefault(cell.task.value, {})[cell.evidence.value] = own
        suppression: dict[str, dict[str, Any]] = {}
        for one in self.suppressions:
            suppression.setdefault(one.system, {})[one.evidence.value] = as_json(one.shares)
        found = {
            "questions": self.run.manifest.questions,
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
            "preference": {one.evidence.value: as_json(one.shares) for one in self.preferences},
            "plausible_preference": self.plausible_preference.to_dict(),
            "suppression": suppression,
            "guard_routes": as_json(self.routes),
            "plausibility": as_json(self.bands),
            "right_letters": dict(self.letters),
            "quirks": list(self.run.manifest.quirks),
        }
        return run_values(self.run.manifest, found)
