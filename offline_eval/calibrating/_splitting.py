"""Parts of the questions: without a common group, or dealt one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ._measured import MeasuredCase

_FEWEST_GROUPS = 10


def split_cases(
    cases: Sequence[MeasuredCase], shares: Sequence[float], *, seed: int = 0
) -> tuple[list[MeasuredCase], ...]:
    """As many parts as `shares`, each with about its share of the questions.

    All cases of a question, and all questions of a group, come into one part. Groups
    are shuffled by `seed` and dealt, each to the part that lacks most; the parts keep
    the order of `cases`. Fewer than ten groups (say, two domains) cannot be dealt without
    making each part a sample of something else: then their questions are.

    Args:
        cases: of any number of questions.
        shares: at or above 0; they are made to sum to one.
        seed: of the shuffle, 0 or more.

    Raises:
        ValueError: a share is below 0, or none is above.

    Example:
        >>> cases = [MeasuredCase(str(i), 1.0, 0.0, True, True, str(i // 2)) for i in range(20)]
        >>> first, second = split_cases(cases, [0.5, 0.5])
        >>> len(first), {c.group for c in first} & {c.group for c in second}
        (10, set())
    """
    wanted = np.asarray(shares, dtype=np.float64)
    if not len(wanted) or (wanted < 0).any() or not wanted.sum() > 0:
        raise ValueError("shares must be at or above 0, and one above")
    whole_groups = len({case.unit for case in cases}) >= _FEWEST_GROUPS
    questions: dict[tuple[str, str], set[str]] = defaultdict(set)
    for case in cases:
        questions[_dealt(case, whole_groups)].add(case.question_id)
    units = sorted(questions)
    lacking = wanted / wanted.sum() * sum(len(ids) for ids in questions.values())
    part_of: dict[tuple[str, str], int] = {}
    for index in np.random.default_rng(seed).permutation(len(units)):
        unit = units[index]
        # Never to a part that is to stay empty.
        part = int(np.argmax(np.where(wanted > 0, lacking, -np.inf)))
        part_of[unit] = part
        lacking[part] -= len(questions[unit])
    parts: tuple[list[MeasuredCase], ...] = tuple([] for _ in wanted)
    for case in cases:
        parts[part_of[_dealt(case, whole_groups)]].append(case)
    return parts


def deal_questions(
    cases: Sequence[MeasuredCase], share: float, *, seed: int = 0
) -> tuple[list[MeasuredCase], list[MeasuredCase]]:
    """Two parts without a common question, dealt at random whatever their groups.

    For learning and certifying: what is certified on has to be a sample of all the
    questions that the promise speaks of, which it is not with whole groups dealt away.

    Args:
        cases: of any number of questions.
        share: of the questions that the first part gets, in [0, 1].
        seed: of the deal, 0 or more.

    Example:
        >>> cases = [MeasuredCase(str(i), 1.0, 0.0, True, True, "one") for i in range(20)]
        >>> [len(part) for part in deal_questions(cases, 0.25)]
        [5, 15]
    """
    questions = sorted({case.question_id for case in cases})
    order = np.random.default_rng(seed).permutation(len(questions))
    first = {questions[index] for index in order[: round(share * len(questions))]}
    return (
        [case for case in cases if case.question_id in first],
        [case for case in cases if case.question_id not in first],
    )


def _dealt(case: MeasuredCase, whole_groups: bool) -> tuple[str, str]:
    return case.unit if whole_groups else ("question", case.question_id)
