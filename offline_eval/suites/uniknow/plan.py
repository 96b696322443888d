"""What a run asks, and what it stored: plan, cases, rows and signals, checked when read.

The questions are split into training and evaluation and put into their contexts. The plan is
made once and stored, so that a resumed run asks exactly what it began with.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Annotated, Literal

from pydantic import Field

from ....calibration.training.scenarios.settings import PreferenceExample, TrainingExample
from ....guard.contracts import LanguageModel
from ....guard.errors import InputError
from ....guard.files import write_json
from ....guard.policy import Policy
from ...run import Run, Stored
from ...run.calls import OnProgress
from ...run.grouping import grouped
from ...run.manifest import Manifest
from ...run.table import TableSpec
from ._cases import (
    PAPER_KINDS,
    START_AGAIN,
    Case,
    ContextKind,
    Dataset,
    Knowledge,
    KnowledgeEstimate,
    Question,
    UniKnowRow,
    UniKnowSignal,
)
from ._contexts import ContextProblem, ContextSet, build_contexts
from ._knowledge import KnowledgeStore, Sampling, estimate_knowledge
from ._questions import read_dataset
from .methods import TrainedMethod, TrainedVariant, preference_examples, training_examples

CASES = TableSpec("cases", Case, key="case_id", hint=START_AGAIN, clean=True)
_PLAN = "plan.json"
_SIDES = (Knowledge.KNOWN, Knowledge.UNKNOWN)
# Questions of each side kept for evaluation; of small data sets only a share.
_EVALUATION_PER_SIDE = 400
_EVALUATION_SHARE = 0.75
_TRAINING_PER_SIDE = 250


class Plan(Stored):
    """What a run asks: its cases, and `plan.json`, which is written after `cases.jsonl`.

    Attributes:
        cases: training first.
        training_cases: number of them.
        evaluation_cases: number of them.
        rows: number of rows of the finished run.
        grouped: whether no group is in both parts.
        knowledge: number of questions of the data set, by what the model knows.
        problems: contexts that could not be built.
        left_out: methods that were asked for and do not answer, with the reason.
    """

    cases: tuple[Case, ...] = Field((), exclude=True)
    training_cases: Annotated[int, Field(ge=0)]
    evaluation_cases: Annotated[int, Field(ge=0)]
    rows: Annotated[int, Field(ge=0)] = 0
    grouped: bool
    knowledge: dict[str, Annotated[int, Field(ge=0)]]
    problems: tuple[ContextProblem, ...] = ()
    left_out: dict[str, str] = Field(default_factory=dict)

    @property
    def training(self) -> list[Case]:
        """The cases that methods are trained and guards calibrated on."""
        return [case for case in self.cases if case.part == "training"]

    @property
    def evaluation(self) -> list[Case]:
        """The cases that all methods answer."""
        return [case for case in self.cases if case.part == "evaluation"]

    def write(self, run: Run) -> None:
        """Store the cases, then `plan.json`, which marks them as complete."""
        table = run[CASES]
        table.drop(lambda _row: True)  # of an attempt that was killed
        table.extend(self.cases)
        value = {"schema_version": Manifest.SCHEMA_VERSION, **self.model_dump(mode="json")}
        write_json(run.folder / _PLAN, value)

    @classmethod
    def read(cls, run: Run, *, with_cases: bool = True) -> Plan | None:
        """Return the stored plan; None if the run was killed before it was complete.

        Args:
            run: of the suite.
            with_cases: read the cases, too.

        Raises:
            InputError: a file is damaged.
        """
        path = run.folder / _PLAN
        if not path.exists():
            return None
        value = Manifest.read_versioned(path, hint=START_AGAIN)
        plan = cls.checked(value, where=str(path), hint=START_AGAIN)
        if not with_cases:
            return plan
        plan = plan.model_copy(update={"cases": tuple(run[CASES].rows())})
        counts = len(plan.training), len(plan.evaluation)
        if counts != (plan.training_cases, plan.evaluation_cases):
            raise InputError(
                "cases are missing", where=str(CASES.path(run.folder)), hint=START_AGAIN
            )
        return plan


def make_plan(
    dataset: Dataset,
    contexts: ContextSet,
    estimates: Mapping[str, KnowledgeEstimate],
    *,
    questions_per_side: int | None,
    defined_only: bool = False,
    seed: int,
) -> Plan:
    """Split the questions and put them into their contexts.

    Args:
        dataset: whose questions are asked.
        contexts: of all its questions.
        estimates: by question id.
        questions_per_side: at most that many known and as many unknown questions are
            evaluated, evenly spaced over the data set, and undefined ones in proportion;
            None for all.
        defined_only: leave out questions for which it is undefined what the model knows.
        seed: of the split.

    Raises:
        InputError: no question is left to evaluate.
    """
    knowledge = {name: estimate.knowledge for name, estimate in estimates.items()}
    split = split_questions(dataset, knowledge, evaluation_share=_EVALUATION_SHARE, seed=seed)
    possible = [
        question
        for question in split.evaluation
        if not (defined_only and knowledge[question.id] is Knowledge.UNDEFINED)
    ]
    evaluated = _limited(possible, knowledge, questions_per_side)
    trained = {question.id for question in split.training}
    cases = build_cases(dataset, contexts, estimates)
    training = [
        case.model_copy(update={"part": "training"})
        for case in cases
        if case.question_id in trained and case.context_kind in PAPER_KINDS
    ]
    evaluation = [case for case in cases if case.question_id in evaluated]
    if not evaluation:
        raise InputError(
            "no question is left to evaluate", where=dataset.name, hint="give more questions"
        )
    sides = Counter(knowledge.values())
    return Plan(
        cases=(*training, *evaluation),
        training_cases=len(training),
        evaluation_cases=len(evaluation),
        grouped=split.grouped,
        knowledge={side.value: sides[side] for side in Knowledge},
        problems=tuple(contexts.problems),
    )


def _limited(
    questions: Sequence[Question], knowledge: Mapping[str, Knowledge], most: int | None
) -> set[str]:
    if most is None:
        return {question.id for question in questions}
    sides = grouped((question.id for question in questions), knowledge.__getitem__)
    larger = max(len(sides.get(side, ())) for side in _SIDES)
    share = min(1.0, most / larger) if larger else 1.0
    room = dict.fromkeys(_SIDES, most)
    room[Knowledge.UNDEFINED] = round(share * len(sides.get(Knowledge.UNDEFINED, ())))
    return {name for side, names in sides.items() for name in _spread(names, room[side])}


def _spread(names: Sequence[str], most: int) -> list[str]:
    """Take at most that many, evenly spaced: neighbours in a list are often of one kind.

    >>> _spread(["a", "b", "c", "d", "e"], 2)
    ['a', 'c']
    """
    taken = min(most, len(names))
    return [names[number * len(names) // taken] for number in range(taken)]


def build_cases(
    dataset: Dataset, contexts: ContextSet, estimates: Mapping[str, KnowledgeEstimate]
) -> list[Case]:
    """Return one case per question and context, in the order of the questions, then the kinds.

    Args:
        dataset: whose questions are asked.
        contexts: as `build_contexts` returns them.
        estimates: by question id; other questions are left out.
    """
    return [
        Case.of(question, contexts.contexts[question.id][kind], estimates[question.id])
        for question in dataset.questions
        if question.id in estimates and question.id in contexts.contexts
        for kind in ContextKind
        if kind in contexts.contexts[question.id]
    ]


@dataclass(frozen=True, slots=True)
class Split:
    """Questions for training and for evaluation, in the order of the data set.

    Attributes:
        training: known and unknown ones only, as many of each unless one side ran out.
        evaluation: all questions of the other groups, undefined ones included.
        grouped: whether no group is in both; False if all questions are one group.
    """

    training: tuple[Question, ...]
    evaluation: tuple[Question, ...]
    grouped: bool


def split_questions(
    dataset: Dataset,
    knowledge: Mapping[str, Knowledge],
    *,
    evaluation_share: float = 0.7,
    training_per_side: int = _TRAINING_PER_SIDE,
    seed: int = 0,
) -> Split:
    """Split by group: whole groups go to training until it has enough.

    400 known and 400 unknown questions are kept for evaluation.

    Args:
        dataset: whose questions are split.
        knowledge: by question id; other questions are in neither part.
        evaluation_share: of the known and of the unknown questions, in (0, 1): what is
            kept for evaluation if that is fewer.
        training_per_side: at most that many known and as many unknown questions are for
            training; the rest of their groups is in neither part.
        seed: the same seed gives the same parts.
    """
    asked = [question for question in dataset.questions if question.id in knowledge]
    groups = grouped(asked, lambda question: question.group)
    members = list(groups.values()) if len(groups) > 1 else [[question] for question in asked]
    rng = Random(f"uniknow/split/{seed}")  # noqa: S311
    rng.shuffle(members)
    totals = Counter(knowledge[question.id] for question in asked)
    spare = {
        side: totals[side] - min(_EVALUATION_PER_SIDE, math.ceil(evaluation_share * totals[side]))
        for side in _SIDES
    }
    chosen = _training_groups(members, knowledge, spare, training_per_side)
    in_training = {question.id for group in chosen for question in group}
    trained = _balanced(chosen, knowledge, training_per_side)
    return Split(
        tuple(question for question in asked if question.id in trained),
        tuple(question for question in asked if question.id not in in_training),
        len(groups) > 1,
    )


def _training_groups(
    members: Sequence[Sequence[Question]],
    knowledge: Mapping[str, Knowledge],
    spare: Mapping[Knowledge, int],
    wanted: int,
) -> list[Sequence[Question]]:
    """Return groups that fit into what is to spare, as long as one side lacks questions."""
    chosen: list[Sequence[Question]] = []
    taken = dict.fromkeys(_SIDES, 0)
    for group in members:
        counts = Counter(knowledge[question.id] for question in group)
        fits = all(taken[side] + counts[side] <= spare[side] for side in _SIDES)
        helps = any(counts[side] and taken[side] < wanted for side in _SIDES)
        if fits and helps:
            chosen.append(group)
            for side in _SIDES:
                taken[side] += counts[side]
    return chosen


def _balanced(
    groups: Sequence[Sequence[Question]], knowledge: Mapping[str, Knowledge], most: int
) -> set[str]:
    asked = (question.id for group in groups for question in group)
    sides = grouped(asked, knowledge.__getitem__)
    ids = [sides[side] for side in _SIDES if side in sides]
    each = min([most, *map(len, ids)])
    return {name for some in ids for name in some[:each]}


_RUN_AGAIN = "run `knowgate eval uniknow` again into another folder"
_GO_ON = "start the same `knowgate eval uniknow` again; it continues the run"
SIGNALS = TableSpec("signals", UniKnowSignal, key="case_id", hint=_RUN_AGAIN, clean=True)
ROWS = TableSpec("rows", UniKnowRow, key="case_id", hint=_RUN_AGAIN, clean=True)
POLICY = "policy.json"


class UniKnowManifest(Manifest):
    """The manifest of a run of this suite.

    Attributes:
        methods: that answer, in the order of the rows; see also `Plan.left_out`.
        left_out: methods that were asked for and cannot be run on this model, with the reason.
    """

    suite: Literal["uniknow"]
    created_by: str
    settings: dict[str, object]
    methods: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(min_length=1)]
    left_out: dict[str, str] = Field(default_factory=dict)


class UniKnowRun:
    """A checked run, finished or not; it has at least one row.

    Args:
        run: opened to read, with a `UniKnowManifest`.

    Attributes:
        manifest: the methods that could not be trained are among those left out.
        plan: what is asked; its `rows` are those of a finished run.
        cases: evaluation cases by id, in the order of the run.
        rows: as stored, in the order of the run.
        finished: whether all rows are there.
        policy: of the guards, with its guarantee; None if no guard took part yet.
        signals: of the evaluation cases; empty likewise.

    Raises:
        InputError: a file is missing, damaged or written by a newer knowgate, or there is no
            row yet; names file and line.
    """

    def __init__(self, run: Run) -> None:
        self.plan, manifest = _plan(run), run.manifest
        assert isinstance(manifest, UniKnowManifest)
        left_out = {**manifest.left_out, **self.plan.left_out}
        methods = tuple(name for name in manifest.methods if name not in left_out)
        self.manifest = manifest.model_copy(update={"methods": methods, "left_out": left_out})
        self.cases = {case.case_id: case for case in self.plan.evaluation}
        self.rows: list[UniKnowRow] = []
        for where, row in run[ROWS].places():
            if row.case_key not in self.cases or row.method not in methods:
                raise InputError(
                    "the row is of no case or method of this run", where=where, hint=_RUN_AGAIN
                )
            self.rows.append(row)
        if not self.rows:
            raise InputError("the run has no row yet", where=str(run.folder), hint=_GO_ON)
        self.finished = len(self.rows) >= self.plan.rows
        path = run.folder / POLICY
        self.policy = Policy.load(path, links=False) if path.exists() else None
        self.signals: list[UniKnowSignal] = []
        if SIGNALS.path(run.folder).exists():
            self.signals = [one for one in run[SIGNALS].rows() if one.part == "evaluation"]

    @property
    def contexts(self) -> dict[str, str]:
        """The text of each case's context."""
        return {key: case.context for key, case in self.cases.items()}


def uniknow_signals(folder: str | os.PathLike[str]) -> list[UniKnowSignal]:
    """Return what the guards of a run measured, to calibrate on.

    One per question and context, training questions first.

    Raises:
        InputError: no run of this suite there, no guard took part, or signals are missing.
    """
    suite = Manifest.read_raw(folder).get("suite")
    if suite != "uniknow":
        raise InputError(
            f"the run is of suite {suite!r}, not 'uniknow'",
            where=str(Path(folder) / "manifest.json"),
            hint="name a run made with `knowgate eval uniknow`",
        )
    run = Run.read(folder, UniKnowManifest)
    plan = Plan.read(run, with_cases=False)
    if plan is None:
        raise InputError("the run has no row yet", where=str(run.folder), hint=_GO_ON)
    if not SIGNALS.path(run.folder).exists():
        raise InputError(
            "the run has no signals.jsonl: no guard took part",
            where=str(run.folder),
            hint="run it with --methods all, or with guard_naive among them",
        )
    found = run[SIGNALS].rows()
    if len(found) < plan.training_cases + plan.evaluation_cases:
        raise InputError(
            "not all signals are measured yet", where=str(SIGNALS.path(run.folder)), hint=_GO_ON
        )
    return found


def _plan(run: Run) -> Plan:
    plan = Plan.read(run)
    if plan is None:
        raise InputError("the run has no row yet", where=str(run.folder), hint=_GO_ON)
    return plan


def tuning_examples(
    variant: TrainedVariant,
    load: Callable[[], LanguageModel],
    data: str,
    *,
    knowledge: Path | None = None,
    limit: int | None = None,
    per_side: int = _TRAINING_PER_SIDE,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> list[TrainingExample] | list[PreferenceExample]:
    """Make examples of the training half of a data set; preferences for `dpo`.

    Args:
        variant: what is trained.
        load: loads the model that is asked what it knows; called once the data are read.
        data: `microworld`, or a file of questions.
        knowledge: file that stores what models know; None to store nothing.
        limit: at most that many questions.
        per_side: at most that many known and as many unknown questions.
        seed: of samples, split, contexts and order.
        on_progress: called with the state of each stage.

    Raises:
        InputError: the data cannot be used, or the model knows all questions, or none.
    """
    dataset = read_dataset(data, limit=limit, seed=seed)
    estimates = estimate_knowledge(
        load(),
        dataset.questions,
        dataset.prompts,
        sampling=Sampling(seed=seed),
        store=None if knowledge is None else KnowledgeStore(knowledge),
        on_progress=on_progress,
    )
    known = {name: estimate.knowledge for name, estimate in estimates.items()}
    chosen = split_questions(dataset, known, training_per_side=per_side, seed=seed).training
    if not {known[question.id] for question in chosen} >= set(_SIDES):
        counts = Counter(known.values())
        raise InputError(
            f"of {len(known)} questions the model knows {counts[Knowledge.KNOWN]} and does not "
            f"know {counts[Knowledge.UNKNOWN]}: training needs some of both",
            where=dataset.name,
            hint="give more questions, or other ones",
        )
    training = replace(dataset, questions=chosen)
    contexts = build_contexts(training, seed=seed, on_progress=on_progress)
    cases = build_cases(training, contexts, estimates)
    make = preference_examples if variant.method is TrainedMethod.DPO else training_examples
    return make(variant, cases, dataset.prompts, per_side=per_side, seed=seed)
