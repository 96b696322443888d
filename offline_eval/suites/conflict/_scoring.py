"""Read a run, checked, and compute accuracy, preference and suppression."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, cast

from ....calibration import Interval
from ....guard.decision import Route
from ....guard.errors import InputError
from ...judging.free_form import LETTERS
from ...report.document import as_json
from ...run import Run
from ...run.grouping import error_types, most_frequent
from ..parts import MODEL_SYSTEM, paired, run_values, share_of
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


# A line of the report: intervals and counts by name.
Found = dict[str, Any]
_BANDS = 4


@dataclass(frozen=True)
class ConflictRun:
    """A checked run, finished or not, and all its numbers.

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

    @cached_property
    def cells(self) -> dict[Task, dict[EvidenceKind, Found]]:
        """Every task over every kind of evidence, in their orders.

        `accuracy`, and `confident`: the same on questions of the high-confidence subset, with
        Wilson intervals over questions with a reply. `errors` counts rows without a reply,
        `unread` replies from which no letter could be read (they count as wrong), `cut` rows whose
        passages were shortened.
        """

        def cell(task: Task, kind: EvidenceKind) -> Found:
            rows = self.at.get((MODEL_SYSTEM, task, kind), {}).values()
            right = self.right(task, kind)
            confident = [value for key, value in right.items() if key in self.confident]
            errors = sum(row.error is not None for row in rows)
            unread = sum(row.letters is None for row in rows) - errors
            return {
                "accuracy": share_of(right.values()),
                "confident": share_of(confident),
                "unread": unread if task in CHOICE_TASKS else 0,
                "errors": errors,
                "cut": sum(row.cut for row in rows),
            }

        return {task: {kind: cell(task, kind) for kind in self.kinds} for task in self.tasks}

    @cached_property
    def confident(self) -> frozenset[str]:
        """Questions whose four-option tasks are all right over NC: the high-confidence subset.

        Every such task of the run must have been asked, without an error; there is none where the
        run has no such task.
        """
        right = [self.right(task, EvidenceKind.NC) for task in self.tasks if task in CHOICE_TASKS]
        keys = right[0] if right else {}
        return frozenset(key for key in keys if all(found.get(key) for found in right))

    @cached_property
    def preferences(self) -> dict[EvidenceKind, Found]:
        """RAG over each kind that contradicts; empty where RAG was not asked.

        `follows`: of the replies that take one of the two sides those that take that of the
        contradicting passage; where options were scored, the likelier side is taken. `both` and
        `neither`: of all replies those that name both answers, or none of them.
        """
        found = {}
        for kind in self.kinds:
            sides = self.sides(kind) if kind in CONFLICTS else []
            if sides:
                letters = [(set(row.letters or ()), set(row.right)) for row, _ in sides]
                found[kind] = {
                    "follows": share_of(side for _, side in sides if side is not None),
                    "both": share_of(right <= taken for taken, right in letters),
                    "neither": share_of(not right & taken for taken, right in letters),
                }
        return found

    @cached_property
    def plausible_preference(self) -> Interval:
        """How much more often RAG goes with a plausible contradiction than with an implausible one.

        Over questions whose replies take a side in both, paired; undefined without such.
        """
        plausible, absurd = (
            {row.key: side for row, side in self.sides(kind) if side is not None}
            for kind in (EvidenceKind.HPC, EvidenceKind.LPC)
        )
        return paired(plausible, absurd)

    @cached_property
    def suppressions(self) -> dict[EvidenceKind, dict[str, Found]]:
        """Per kind that contradicts and system; empty where PK was not asked.

        `accuracy` of PK; `closed_book`: of the same questions without passage or instruction;
        `score`: of the questions right without a passage those that stay right (1: the passage is
        ignored, 0: it always wins); `difference`: accuracy minus that of closed book.
        """
        alone, removed = (self.right(Task.PK, None, system) for system in (CLOSED_BOOK, REMOVES))
        found: dict[EvidenceKind, dict[str, Found]] = {}
        for kind, system in product(CONFLICTS, (MODEL_SYSTEM, REMOVES, *self.guards)):
            right = self.right(Task.PK, kind, system)
            if system == REMOVES and kind in self.kinds:
                there = {one.key for one in self.instances if kind in one.evidence}
                right = {key: value for key, value in removed.items() if key in there}
            if right:
                both = {key: value for key, value in right.items() if key in alone}
                found.setdefault(kind, {})[system] = {
                    "accuracy": share_of(both.values()),
                    "closed_book": share_of(alone[key] for key in both),
                    "score": share_of(value for key, value in both.items() if alone[key]),
                    "difference": paired(both, alone),
                }
        return found

    @cached_property
    def routes(self) -> dict[str, dict[EvidenceKind, dict[Route, int]]]:
        """What each guard did with PK's passages: how often it followed, removed and abstained.

        By guard, kind of evidence and route; decisions that failed are in none.
        """
        found: dict[str, dict[EvidenceKind, dict[Route, int]]] = {name: {} for name in self.guards}
        for name, kind in product(self.guards, EvidenceKind):
            rows = self.at.get((name, Task.PK, kind), {}).values()
            counts = Counter(row.route for row in rows if row.route is not None)
            if counts:
                found[name][kind] = {route: counts[route] for route in Route}
        return found

    @cached_property
    def differences(self) -> dict[Task, dict[EvidenceKind, Interval]]:
        """How much a task loses from NC to each kind that contradicts, paired by question."""
        found: dict[Task, dict[EvidenceKind, Interval]] = {}
        for task, kind in product(self.tasks, CONFLICTS):
            lost = paired(self.right(task, EvidenceKind.NC), self.right(task, kind))
            if lost.n:
                found.setdefault(task, {})[kind] = lost
        return found

    @cached_property
    def bands(self) -> list[Found]:
        """Equal bands of an answer's measured plausibility, over contradicting passages.

        From `low` to `high`, of which the last band holds its upper end. `follows`: share of CK
        right: the passage is followed; `ignores`: share of PK right. Empty where nothing was
        measured.
        """
        inside: list[list[tuple[str, EvidenceKind]]] = [[] for _ in range(_BANDS)]
        for instance in self.instances:
            for kind, shown in instance.evidence.items():
                if kind in (EvidenceKind.HPC, EvidenceKind.LPC) and shown.plausibility is not None:
                    band = min(int(shown.plausibility * _BANDS), _BANDS - 1)
                    inside[band].append((instance.key, kind))

        def share(task: Task, places: Sequence[tuple[str, EvidenceKind]]) -> Interval:
            right = (self.right(task, kind).get(key) for key, kind in places)
            return share_of(one for one in right if one is not None)

        return [
            {
                "low": band / _BANDS,
                "high": (band + 1) / _BANDS,
                "follows": share(Task.CK, places),
                "ignores": share(Task.PK, places),
            }
            for band, places in enumerate(inside)
            if any(inside)
        ]

    @cached_property
    def passages(self) -> dict[EvidenceKind, Found]:
        """Numbers of passages by kind.

        `made`: that there are, `used`: that passed all checks, `doubted`: on which checks or judges
        disagree, `plausibility`: mean of the used ones in [0, 1], None where it was not measured,
        `refused`: reason → number, most frequent first, those that could not be made included.
        """
        found = {}
        for kind in self.kinds:
            rows = [row for row in self.evidence if row.kind is kind]
            used = [row for row in rows if row.accepted]
            values = [row.plausibility for row in used if row.plausibility is not None]
            found[kind] = {
                "made": sum(bool(row.passage) for row in rows),
                "used": len(used),
                "doubted": sum(disagree(row.checks) for row in rows),
                "plausibility": sum(values) / len(values) if values else None,
                "refused": most_frequent(row.reason for row in rows if not row.accepted),
            }
        return found

    @cached_property
    def failures(self) -> dict[str, int]:
        """Rows with an error, by type, most frequent first."""
        # A guard that keeps the model's reply keeps its failure, which is no second call.
        own = [row for row in self.rows if row.route is None]
        return error_types((*own, *self.beliefs, *self.evidence))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; free of NaN."""
        accuracy = {
            task: {kind: _flat(cell) for kind, cell in cells.items()}
            for task, cells in self.cells.items()
        }
        lost = {
            f"{task}_{kind}": one
            for task, of in self.differences.items()
            for kind, one in of.items()
        }
        systems = dict.fromkeys(name for found in self.suppressions.values() for name in found)
        suppression = {
            name: {kind: of[name] for kind, of in self.suppressions.items() if name in of}
            for name in systems
        }
        # How often each letter is right where one is: that options stand in balanced places.
        letters = Counter(row.right[0] for row in self.rows if len(row.right) == 1)
        values = {
            "questions": self.manifest.questions,
            "instances": len(self.instances),
            "high_confidence": len(self.confident),
            "rows": len(self.rows),
            "rows_planned": len(self.planned_ids),
            "failures": self.failures,
            "beliefs": most_frequent(row.why for row in self.beliefs),
            "evidence": self.passages,
            "plausible_preference": self.plausible_preference,
            "accuracy": accuracy,
            "lost_to": lost,
            "preference": self.preferences,
            "suppression": suppression,
            "guard_routes": self.routes,
            "plausibility": self.bands,
            "right_letters": dict(sorted(letters.items())),
            "quirks": self.manifest.quirks,
        }
        return run_values(self.manifest, as_json(values))


def _flat(cell: Found) -> Found:
    rest = dict(cell)
    return {**rest.pop("accuracy").to_dict(), **rest}


def side_of(row: ConflictRow, instance: Instance) -> bool | None:
    """True where a reply takes the contradicting side, False for the other; None for neither
    or both.
    """
    roles = {option.role: letter for letter, option in instance.lettered}
    own = roles["belief"]
    other = next((letter for letter in row.right if letter != own), None)
    if other is None:
        return None
    if row.likelihoods is not None:
        values = dict(zip(LETTERS, row.likelihoods, strict=False))
        return None if values[other] == values[own] else values[other] > values[own]
    taken = {own, other} & set(row.letters or ())
    return other in taken if len(taken) == 1 else None


def conflict_run(run: Run) -> ConflictRun:
    """Read a run of this suite, finished or not.

    Raises:
        InputError: there is no row yet, or a file is missing, broken or written by a newer
            knowgate; names file and line.
    """
    root = run.folder
    planned_there = INSTANCES.path(root).exists()
    read = ConflictRun(
        cast(ConflictManifest, run.manifest),
        tuple(run[BELIEFS].rows()),
        tuple(run[EVIDENCE].rows()),
        tuple(run[INSTANCES].rows()) if planned_there else (),
        tuple(run[ROWS].rows()),
    )
    for row in read.rows:
        if row_id(row.system, row.task, row.evidence, row.key) not in read.planned_ids:
            raise InputError(
                f"row {row.row_id[:80]!r} answers no question of the run",
                where=str(root / "rows"),
                hint=HINT,
            )
    if not read.rows and (read.instances or not planned_there):
        raise InputError(
            "the run is not finished (no task was asked yet)",
            where=str(root),
            hint="start the same `knowgate eval conflict` again to continue it",
        )
    return read
