"""Cases from questions and contexts, and the halves for training and evaluation."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ....guard.errors import InputError
from ._cases import ContextKind, Knowledge, ScenarioCase, SuiteQuestion
from ._context_sets import ContextSet
from ._datasets import Dataset

_SIDES = (Knowledge.KNOWN, Knowledge.UNKNOWN)


def build_cases(
    dataset: Dataset, contexts: ContextSet, knowledge: Mapping[str, Knowledge]
) -> list[ScenarioCase]:
    """One case per question and context, in the order of the questions, then of the kinds.

    Args:
        dataset: whose questions are asked.
        contexts: as `build_contexts` gives them.
        knowledge: by question id; questions that it does not name are left out.
    """
    return [
        ScenarioCase(question, contexts.contexts[question.id][kind], knowledge[question.id])
        for question in dataset.questions
        if question.id in knowledge and question.id in contexts.contexts
        for kind in ContextKind
        if kind in contexts.contexts[question.id]
    ]


@dataclass(frozen=True, slots=True)
class Split:
    """Questions for training and for evaluation, in the order of the data set.

    Attributes:
        training: known and unknown ones only, as many of each unless one side ran out.
        evaluation: all questions of the other groups, undefined ones included.
        grouped: whether no group is in both halves; False where all questions are one group.
    """

    training: tuple[SuiteQuestion, ...]
    evaluation: tuple[SuiteQuestion, ...]
    grouped: bool


def split_questions(
    dataset: Dataset,
    knowledge: Mapping[str, Knowledge],
    *,
    evaluation_per_side: int = 400,
    evaluation_share: float = 0.7,
    training_per_side: int = 250,
    seed: int = 0,
) -> Split:
    """Split by group: whole groups go to training until it has enough.

    Args:
        dataset: whose questions are split.
        knowledge: by question id; questions that it does not name are in neither half.
        evaluation_per_side: at least that many known and as many unknown questions are
            kept for evaluation, or `evaluation_share` of them where that is fewer.
        evaluation_share: of the known and of the unknown questions, in (0, 1).
        training_per_side: at most that many known and as many unknown questions are for
            training; what else their groups hold is in neither half.
        seed: the same seed gives the same halves.

    Raises:
        InputError: an argument is out of range.
    """
    if not 0 < evaluation_share < 1:
        raise InputError("must lie between 0 and 1", where="evaluation_share")
    if min(evaluation_per_side, training_per_side) < 0:
        raise InputError("must not be negative", where="evaluation_per_side, training_per_side")
    asked = [question for question in dataset.questions if question.id in knowledge]
    groups: dict[str, list[SuiteQuestion]] = defaultdict(list)
    for question in asked:
        groups[question.group].append(question)
    grouped = len(groups) > 1
    members = list(groups.values()) if grouped else [[question] for question in asked]
    rng = Random(f"uniknow/split/{seed}")  # noqa: S311
    rng.shuffle(members)
    totals = Counter(knowledge[question.id] for question in asked)
    spare = {
        side: totals[side] - min(evaluation_per_side, math.ceil(evaluation_share * totals[side]))
        for side in _SIDES
    }
    chosen = _training_groups(members, knowledge, spare, training_per_side)
    in_training = {question.id for group in chosen for question in group}
    trained = _balanced(chosen, knowledge, training_per_side)
    return Split(
        tuple(question for question in asked if question.id in trained),
        tuple(question for question in asked if question.id not in in_training),
        grouped,
    )


def _training_groups(
    members: Sequence[Sequence[SuiteQuestion]],
    knowledge: Mapping[str, Knowledge],
    spare: Mapping[Knowledge, int],
    wanted: int,
) -> list[Sequence[SuiteQuestion]]:
    """Groups that fit into what is to spare, as long as one side lacks questions."""
    chosen: list[Sequence[SuiteQuestion]] = []
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
    groups: Sequence[Sequence[SuiteQuestion]], knowledge: Mapping[str, Knowledge], most: int
) -> set[str]:
    by_side = {
        side: [
            question.id for group in groups for question in group if knowledge[question.id] is side
        ]
        for side in _SIDES
    }
    there = [len(ids) for ids in by_side.values() if ids]
    each = min([most, *there])
    return {name for ids in by_side.values() for name in ids[:each]}
