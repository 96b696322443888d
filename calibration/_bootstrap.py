"""An interval for any statistic of cases, by resampling questions or whole groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ._case_arrays import Floats, Numbers
from ._intervals import UNDEFINED, Interval, wilson_interval

Statistic = Callable[[Floats, Floats], float | None]
"""A number of probabilities and outcomes, or of confidences and losses; None = undefined."""


def bootstrap_interval(
    statistic: Statistic,
    probabilities: Numbers,
    outcomes: Sequence[float] | Sequence[bool] | Floats,
    *,
    groups: Sequence[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """A statistic with its percentile bootstrap interval over independent units.

    The units are groups where they are given (say, all case variants of one question, or
    all questions of one document), else the cases. Units are drawn with replacement and
    keep all their cases. Draws where the statistic is None are left out.

    The interval always holds the value. Nominal 90 % intervals covered the truth in 88 to
    92 % of simulated samples of 200 and 1,000 cases for `brier_score` and in 80 to 90 % for
    `debiased_calibration_error`. Those of `expected_calibration_error` lie too high where
    probabilities are nearly right (down to 0 %): resampling adds chance to chance.

    Where every draw gives the same value, resampling says nothing about chance. Then, as
    in `bootstrap_auroc`, the Wilson interval of value·n successes in n units stands in for
    a value in [0, 1], an honest order of magnitude; otherwise there is no interval.

    Args:
        statistic: such as `brier_score`, `aurc`, or a lambda that fixes further arguments.
        probabilities: its first argument, one per case.
        outcomes: its second argument, one per case.
        groups: the unit of each case.
        resamples: draws, at least 1.
        seed: of the draws.
        level: coverage in (0, 1).

    Returns:
        The interval; `n` counts units. Undefined where the statistic is.

    Raises:
        ValueError: lengths differ, an argument is out of range, or what the statistic
            itself raises.

    Source: Efron & Tibshirani 1993, An introduction to the bootstrap, chapter 13.

    Example:
        >>> from knowgate.calibration import brier_score
        >>> found = bootstrap_interval(brier_score, [0.2, 0.8, 0.6], [False, True, False])
        >>> round(found.value, 3), found.n
        (0.147, 3)
    """
    if not 0.0 < level < 1.0 or resamples < 1:
        raise ValueError("level must be in (0, 1), and there must be a resample")
    first = np.asarray(probabilities, dtype=np.float64)
    second = np.asarray(outcomes, dtype=np.float64)
    names = np.arange(len(first)) if groups is None else np.asarray([str(g) for g in groups])
    if first.shape != second.shape or len(names) != len(first):
        raise ValueError(f"{len(first)} cases, {len(second)} outcomes, {len(names)} groups")
    value = statistic(first, second)
    if value is None or not len(first):
        return UNDEFINED
    _, owner, sizes = np.unique(names, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(owner, kind="stable"), np.cumsum(sizes)[:-1])
    rng = np.random.default_rng(seed)
    drawn: list[float] = []
    for _ in range(resamples):
        picked = rng.integers(0, len(members), len(members))
        cases = picked if groups is None else np.concatenate([members[i] for i in picked])
        found = statistic(first[cases], second[cases])
        if found is not None:
            drawn.append(found)
    return _interval(value, drawn, len(members), level)


def _interval(value: float, drawn: list[float], n: int, level: float) -> Interval:
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail]) if drawn else (value, value)
    if low < high:
        return Interval(value, min(value, float(low)), max(value, float(high)), n)
    if not 0.0 <= value <= 1.0:
        return Interval(value, None, None, n)
    below = wilson_interval(math.floor(value * n), n, level).low
    return Interval(value, below, wilson_interval(math.ceil(value * n), n, level).high, n)
