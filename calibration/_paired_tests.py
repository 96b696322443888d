"""Two systems on the same questions: does one differ from the other?

Answers to the same question are no independent samples; what decides is the questions on
which the two differ.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from ._case_arrays import Floats, Numbers
from ._intervals import UNDEFINED, Interval, wilson_interval

# From here on the exact distribution and its approximation agree in four digits.
_EXACT_UP_TO = 1000
_CHUNK = 100


def mcnemar_p_value(first_only: int, second_only: int, *, exact: bool | None = None) -> float:
    """P-value of "both succeed equally often", from the pairs in which one succeeds alone.

    Args:
        first_only: pairs in which the first succeeds and the second does not.
        second_only: the other way round.
        exact: two-sided binomial tail (True), or chi-squared with continuity correction
            (False); None: exact up to 1,000 such pairs.

    Returns:
        In [0, 1]; 1.0 where there is no such pair: no evidence shows no difference.

    Raises:
        ValueError: a count is negative.

    Source: McNemar 1947, Note on the sampling error of the difference between correlated
    proportions or percentages; Edwards 1948 for the correction.

    Example:
        >>> round(mcnemar_p_value(1, 8), 4)
        0.0391
    """
    if first_only < 0 or second_only < 0:
        raise ValueError(f"negative count of pairs: {first_only}, {second_only}")
    pairs = first_only + second_only
    if not pairs:
        return 1.0
    if exact if exact is not None else pairs <= _EXACT_UP_TO:
        from scipy.stats import binom

        return min(1.0, 2.0 * float(binom.cdf(min(first_only, second_only), pairs, 0.5)))
    from scipy.stats import chi2

    excess = max(0, abs(first_only - second_only) - 1)
    return float(chi2.sf(excess**2 / pairs, 1))


def paired_difference(
    first: Sequence[bool] | Numbers,
    second: Sequence[bool] | Numbers,
    *,
    groups: Sequence[Hashable] | None = None,
    resamples: int = 2000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Interval:
    """Mean of `first` minus mean of `second`, with a paired percentile bootstrap interval.

    Whole groups are drawn, and both systems see the same draws: what makes a question hard
    for both cancels out.

    Where all draws agree, resampling says nothing about chance and a width of zero would
    claim certainty: the interval is then as wide on either side as that of a share of 0.

    Args:
        first: one value per pair, a share or a truth value.
        second: of the same pairs.
        groups: what each pair belongs to, say a question; None: each pair for itself.
        resamples: draws, at least 1.
        seed: of the draws.
        confidence: coverage in (0, 1).

    Returns:
        The difference; `n` counts groups. Undefined without pairs.

    Raises:
        ValueError: lengths differ, or an argument is out of range.

    Source: Efron & Tibshirani 1993, An introduction to the bootstrap, chapter 13.

    Example:
        >>> found = paired_difference([1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 1, 0])
        >>> found.value, found.low, found.high
        (0.5, 0.16666666666666666, 0.8333333333333334)
    """
    if not 0.0 < confidence < 1.0 or resamples < 1:
        raise ValueError("confidence must be in (0, 1), and there must be a resample")
    above = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    if len(first) != len(second) or (groups is not None and len(groups) != len(first)):
        raise ValueError("pairs and groups must be equally many")
    if not len(above):
        return UNDEFINED
    position = {key: index for index, key in enumerate(dict.fromkeys(groups or ()))}
    owner = np.arange(len(above)) if groups is None else np.array([position[key] for key in groups])
    sums = np.bincount(owner, weights=above).astype(np.float64)
    sizes = np.bincount(owner)
    drawn = _drawn_means(sums, sizes, resamples, np.random.default_rng(seed))
    value, count = float(above.mean()), len(sums)
    tail = (1 - confidence) / 2
    low, high = (float(end) for end in np.quantile(drawn, [tail, 1 - tail]))
    if low == high:
        width = wilson_interval(0, count, confidence).high
        assert width is not None  # there is a pair
        return Interval(value, max(-1.0, value - width), min(1.0, value + width), count)
    return Interval(value, min(low, value), max(high, value), count)


def _drawn_means(
    sums: Floats, sizes: NDArray[np.intp], resamples: int, rng: np.random.Generator
) -> Floats:
    """Mean over all pairs of the groups that each draw picked; shape (resamples,)."""
    means = []
    for start in range(0, resamples, _CHUNK):
        shape = (min(_CHUNK, resamples - start), len(sums))
        picked = rng.integers(0, len(sums), shape)
        means.append(sums[picked].sum(axis=1) / sizes[picked].sum(axis=1))
    return np.concatenate(means)


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """P-values made larger, so that comparing each with one level errs in the family once.

    At level δ those adjusted values that are at most δ are what Holm's step-down procedure
    rejects: the chance that any of the family is rejected falsely is at most δ, however
    the tests depend on each other.

    Args:
        p_values: of all tests of the family, each in [0, 1].

    Source: Holm 1979, A simple sequentially rejective multiple test procedure.

    Example:
        >>> holm_adjusted([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    if any(math.isnan(value) or not 0.0 <= value <= 1.0 for value in p_values):
        raise ValueError("a p-value is out of [0, 1]")
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [0.0] * len(p_values)
    reached = 0.0
    for rank, index in enumerate(order):
        reached = max(reached, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = reached
    return adjusted
