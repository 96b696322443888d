"""What a run asks, and what it stored: plan, cases, rows and signals, checked when read.

The questions are split into training and evaluation and put into their contexts. The plan is
made once and stored, so that a resumed run asks exactly what it began with.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated, Literal

from pydantic import Field

from ....calibration.training.scenarios import TrainingExample
from ....guard.contracts import LanguageModel
from ....guard.errors import InputError
from ....guard.files import write_json
from ...run import Run, Stored
from ...run.calls import OnProgress
from ...run.grouping import grouped
from ...run.manifest import START_AGAIN, Manifest
from ...run.table import TableSpec
from .._prompts import token_counter
from ._bundled import read_dataset
from ._cases import (
    PAPER_KINDS,
    Case,
    ContextKind,
    Dataset,
    Knowledge,
    KnowledgeEstimate,
    Question,
    UniKnowRow,
    UniKnowSignal,
)
from ._contexts import WINDOW_WORDS, ContextProblem, Contexts, build_contexts
from ._knowledge import KnowledgeStore, estimate_knowledge
from .methods import TrainedMethod, UniKnowSettings, training_examples

RUN_AGAIN = "run `knowgate eval uniknow` again into another folder"
GO_ON = "start the same `knowgate eval uniknow` again; it continues the run"
CASES = TableSpec("cases", Case, key="case_id", hint=START_AGAIN, clean=True)
SIGNALS = TableSpec("signals", UniKnowSignal, key="case_id", hint=RUN_AGAIN, clean=True)
ROWS = TableSpec("rows", UniKnowRow, key="case_id", hint=RUN_AGAIN, clean=True)
_PLAN, POLICY = "plan.json", "policy.json"
_SIDES = (Knowledge.KNOWN, Knowledge.UNKNOWN)
# Questions of each side kept for evaluation; of small data sets only a share.
_EVALUATION_PER_SIDE = 400
_EVALUATION_SHARE = 0.75
_TRAINING_PER_SIDE = 250
_Count = Annotated[int, Field(ge=0)]


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
    training_cases: _Count
    evaluation_cases: _Count
    rows: _Count = 0
    grouped: bool
    knowledge: dict[str, _Count]
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
        # Of an attempt that was killed.
        table.drop(lambda _row: True)
        table.extend(self.cases)
        value = {"schema_version": Manifest.SCHEMA_VERSION, **self.model_dump(mode="json")}
        write_json(run.folder / _PLAN, value)

    @classmethod
    def find(cls, run: Run) -> Plan | None:
        """Return the stored plan without its cases; None if the run was killed before.

        Raises:
            InputError: the file is damaged.
        """
        path = run.folder / _PLAN
        if not path.exists():
            return None
        value = Manifest.read_versioned(path, hint=START_AGAIN)
        return cls.checked(value, where=str(path), hint=START_AGAIN)

    @classmethod
    def read(cls, run: Run) -> Plan:
        """Return the stored plan.

        Raises:
            InputError: a file is damaged, or there is no plan yet.
        """
        plan = cls.find(run)
        if plan is None:
            raise InputError("the run has no row yet", where=str(run.folder), hint=GO_ON)
        plan = plan.model_copy(update={"cases": tuple(run[CASES].rows())})
        counts = len(plan.training), len(plan.evaluation)
        if counts != (plan.training_cases, plan.evaluation_cases):
            where = str(CASES.path(run.folder))
            raise InputError("cases are missing", where=where, hint=START_AGAIN)
        return plan


def make_plan(
    dataset: Dataset,
    built: tuple[Contexts, Sequence[ContextProblem]],
    estimates: Mapping[str, KnowledgeEstimate],
    settings: UniKnowSettings,
) -> Plan:
    """Split the questions and put them into their contexts.

    Args:
        dataset: whose questions are asked.
        built: contexts of all its questions, and what could not be built.
        estimates: by question id.
        settings: at most `questions_per_side` known and as many unknown questions are
            evaluated, evenly spaced over the data set, and undefined ones in proportion, or
            none of these where `defined_only` is set; `seed` is of the split.

    Raises:
        InputError: no question is left to evaluate.
    """
    knowledge = {name: estimate.knowledge for name, estimate in estimates.items()}
    share, seed = _EVALUATION_SHARE, settings.seed
    trained, left = split_questions(dataset, knowledge, evaluation_share=share, seed=seed)
    sides = grouped((question.id for question in left), knowledge.__getitem__)
    if settings.defined_only:
        sides.pop(Knowledge.UNDEFINED, None)
    evaluated = _evaluated(sides, settings.questions_per_side)
    cases = build_cases(dataset, built[0], estimates)
    in_training = {question.id for question in trained}
    training = [
        case.model_copy(update={"part": "training"})
        for case in cases
        if case.question_id in in_training and case.context_kind in PAPER_KINDS
    ]
    evaluation = [case for case in cases if case.question_id in evaluated]
    if not evaluation:
        what, hint = "no question is left to evaluate", "give more questions"
        raise InputError(what, where=dataset.name, hint=hint)
    counts = Counter(knowledge.values())
    return Plan(
        cases=(*training, *evaluation),
        training_cases=len(training),
        evaluation_cases=len(evaluation),
        grouped=len({question.group for question in dataset.questions}) > 1,
        knowledge={side.value: counts[side] for side in Knowledge},
        problems=tuple(built[1]),
    )


def _evaluated(sides: Mapping[Knowledge, Sequence[str]], most: int | None) -> set[str]:
    """Take so many questions of each side, evenly: neighbours in a list are often of one kind."""
    larger = max((len(sides.get(side, ())) for side in _SIDES), default=0)
    share = min(1.0, most / larger) if most is not None and larger else 1.0
    found: set[str] = set()
    for side, names in sides.items():
        room = len(names) if most is None else most if side in _SIDES else round(share * len(names))
        taken = min(room, len(names))
        found.update(names[number * len(names) // taken] for number in range(taken))
    return found


_LEAST_WORDS = 10
# Share of the free tokens that is used: windows differ, and blank lines join them.
_MARGIN = 0.9
_SAMPLED_SOURCES = 200


def fitting_size(lm: LanguageModel, dataset: Dataset, settings: UniKnowSettings) -> tuple[int, int]:
    """Return words and passages of contexts that the model can read with the question.

    Args:
        lm: a model that does not state its context window gets passages of the usual length.
        dataset: whose sources, questions and prompts are measured.
        settings: how many passages are wanted in contexts with several, and whether there will be
            such contexts; two passages then have to fit.
    """
    passages, count = settings.passages_per_context, token_counter(lm)
    window = getattr(lm, "context_window", None)
    sources = [text for question in dataset.questions for text in question.sources]
    if count is None or window is None or not sources:
        return WINDOW_WORDS, passages
    read = sources[:_SAMPLED_SOURCES]
    per_word = sorted(count(text) / max(1, len(text.split())) for text in read)
    # Nearly the worst text decides: a prompt that is too long is an error, not a shorter one.
    high = per_word[min(len(per_word) - 1, math.floor(0.98 * len(per_word)))]
    questions = [question.question for question in dataset.questions]
    prompts = [dataset.prompts.with_context, dataset.prompts.with_context_or_unknown]
    asked = sum(max(map(count, texts)) for texts in (questions, prompts))
    left = window - getattr(lm, "max_new_tokens", 0) - asked
    room = max(0, math.floor(left * _MARGIN / high))
    words = max(_LEAST_WORDS, min(WINDOW_WORDS, room // (2 if settings.beyond else 1)))
    return words, max(2, min(passages, room // words))


def build_cases(
    dataset: Dataset, contexts: Contexts, estimates: Mapping[str, KnowledgeEstimate]
) -> list[Case]:
    """Return one case per question and context, in the order of the questions, then the kinds.

    Args:
        dataset: whose questions are asked.
        contexts: as `build_contexts` returns them.
        estimates: by question id.
    """
    return [
        Case.of(question, kind, contexts[question.id][kind], estimates[question.id])
        for question in dataset.questions
        for kind in ContextKind
        if kind in contexts[question.id]
    ]


def split_questions(
    dataset: Dataset,
    knowledge: Mapping[str, Knowledge],
    *,
    evaluation_share: float = 0.7,
    seed: int = 0,
) -> tuple[tuple[Question, ...], tuple[Question, ...]]:
    """Split by group: whole groups go to training until it has enough.

    400 known and 400 unknown questions are kept for evaluation. If all questions are one group,
    each is a group of its own.

    Args:
        dataset: whose questions are split.
        knowledge: by question id.
        evaluation_share: of the known and of the unknown questions, in (0, 1): what is
            kept for evaluation if that is fewer.
        seed: the same seed gives the same parts.

    Returns:
        Those for training, known and unknown ones only, at most 250 of each and as many of both
        unless one side ran out; and all questions of the other groups, undefined ones included.
    """
    asked = dataset.questions
    groups = grouped(asked, lambda question: question.group)
    members = list(groups.values()) if len(groups) > 1 else [[question] for question in asked]
    Random(f"uniknow/split/{seed}").shuffle(members)  # noqa: S311
    totals = Counter(knowledge[question.id] for question in asked)
    spare = {
        side: totals[side] - min(_EVALUATION_PER_SIDE, math.ceil(evaluation_share * totals[side]))
        for side in _SIDES
    }
    taken: dict[Knowledge, list[str]] = {side: [] for side in _SIDES}
    in_training: set[str] = set()
    for group in members:
        own = {side: [one.id for one in group if knowledge[one.id] is side] for side in _SIDES}
        fits = all(len(taken[side]) + len(own[side]) <= spare[side] for side in _SIDES)
        if fits and any(own[side] and len(taken[side]) < _TRAINING_PER_SIDE for side in _SIDES):
            in_training.update(question.id for question in group)
            for side in _SIDES:
                taken[side] += own[side]
    ids = [some for some in taken.values() if some]
    each = min([_TRAINING_PER_SIDE, *map(len, ids)])
    trained = {name for some in ids for name in some[:each]}
    return (
        tuple(question for question in asked if question.id in trained),
        tuple(question for question in asked if question.id not in in_training),
    )


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


def uniknow_signals(folder: str | os.PathLike[str]) -> list[UniKnowSignal]:
    """Return what the guards of a run measured, to calibrate on.

    One per question and context, training questions first.

    Raises:
        InputError: no run of this suite there, no guard took part, or signals are missing.
    """
    run = Run.read(folder, UniKnowManifest)
    plan, path = Plan.read(run), SIGNALS.path(run.folder)
    if not path.exists():
        what = "the run has no signals.jsonl: no guard took part"
        hint = "run it with --methods all, or with guard_naive among them"
        raise InputError(what, where=str(run.folder), hint=hint)
    found = run[SIGNALS].rows()
    if len(found) < plan.training_cases + plan.evaluation_cases:
        raise InputError("not all signals are measured yet", where=str(path), hint=GO_ON)
    return found


def tuning_examples(
    method: TrainedMethod,
    load: Callable[[], LanguageModel],
    data: str,
    *,
    knowledge: Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> list[TrainingExample]:
    """Make examples of the training half of a data set; preferences for `dpo`.

    Args:
        method: what is trained.
        load: loads the model that is asked what it knows; called once the data are read.
        data: `microworld`, or a file of questions.
        knowledge: file that stores what models know; None to store nothing.
        limit: at most that many questions.
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
        settings=UniKnowSettings(seed=seed),
        store=None if knowledge is None else KnowledgeStore(knowledge),
        on_progress=on_progress,
    )
    known = {name: estimate.knowledge for name, estimate in estimates.items()}
    chosen, _ = split_questions(dataset, known, seed=seed)
    if not {known[question.id] for question in chosen} >= set(_SIDES):
        counts = Counter(known.values())
        what = (
            f"of {len(known)} questions the model knows {counts[Knowledge.KNOWN]} and does not "
            f"know {counts[Knowledge.UNKNOWN]}: training needs some of both"
        )
        raise InputError(what, where=dataset.name, hint="give more questions, or other ones")
    training = replace(dataset, questions=chosen)
    contexts, _ = build_contexts(training, seed=seed, on_progress=on_progress)
    cases = build_cases(training, contexts, estimates)
    return training_examples(method, cases, dataset.prompts, seed=seed)
