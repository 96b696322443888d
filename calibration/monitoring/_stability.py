"""The population stability index, with what it is when nothing has changed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...guard import Histogram
from ._distance import (
    DRAWS,
    Counts,
    Distance,
    checked_counts,
    p_value,
    smoothed_shares,
    splits_without_drift,
    stability_index,
)


def population_stability_index(
    expected: Histogram,
    observed: Sequence[int],
    *,
    confidence: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Distance:
    """PSI between the calibration histogram and live counts in the same bins.

    The sum over bins of (q - p) ln(q / p), p and q being the shares of calibration and
    live values. So that no bin is infinitely surprising, half a question is added to
    each bin on each side; bins that are empty on both sides are left out.

    Finite samples of one distribution have a PSI above 0: about (B - 1)(1/n + 1/m)
    for B well filled bins, n calibration questions and m live values. That mean
    (`without_drift`) and the p-value come from random splits of all values into sides
    of the same sizes, which is exact however thin the bins are. The rules of thumb
    ".1 is a change, .25 a large one" are for `excess`.

    The interval of the true PSI inverts the noncentral chi-square distribution that
    PSI / (1/n + 1/m) has near no drift, widened to the delta method's further away.

    Args:
        expected: of the calibration questions.
        observed: live values per bin, shape (bins,).
        confidence: coverage of the interval, in (0, 1).
        draws: random splits.
        seed: of these.

    Raises:
        InputError: the counts do not fit the histogram.

    Example:
        >>> histogram = Histogram(edges=(0.0, 0.5, 1.0), counts=(60, 40))
        >>> found = population_stability_index(histogram, [40, 60])
        >>> round(found.value, 3), round(found.without_drift, 2)
        (0.159, 0.02)
    """
    calibration, live = checked_counts(expected, observed)
    n, m = int(calibration.sum()), int(live.sum())
    if not n or not m:
        return Distance(None, None, None, None, None, n, m)
    occupied = (calibration + live) > 0
    value = float(stability_index(calibration, live, occupied))
    split = splits_without_drift(calibration, live, draws, seed)
    without = stability_index(*split, occupied)
    mean = float(without.mean())
    low, high = index_interval(
        value,
        mean,
        smoothed_shares(calibration, occupied)[occupied],
        smoothed_shares(live, occupied)[occupied],
        (n, m),
        confidence,
    )
    return Distance(value, low, high, mean, p_value(value, without), n, m)


def index_interval(
    value: float,
    without_drift: float,
    p: Counts,
    q: Counts,
    sizes: tuple[float, float],
    confidence: float,
) -> tuple[float, float]:
    """Interval of the true PSI; `p` and `q` are shares per bin, none of them 0."""
    from scipy.stats import norm

    scale = 1 / sizes[0] + 1 / sizes[1]
    if without_drift <= 0.0:  # one bin: both sides are the same whatever happens
        return 0.0, value
    tail = (1 - confidence) / 2
    freedom = without_drift / scale
    low = scale * _noncentrality(value / scale, freedom, 1 - tail)
    high = scale * _noncentrality(value / scale, freedom, tail)
    slope_p, slope_q = -np.log(q / p) - (q - p) / p, np.log(q / p) + (q - p) / q
    variance = _variance(slope_p, p) / sizes[0] + _variance(slope_q, q) / sizes[1]
    half = float(norm.ppf(1 - tail)) * math.sqrt(variance)
    # The bias is `without_drift` near no drift and less further away: each end takes the worse.
    return max(0.0, min(low, value - without_drift - half)), max(high, value + half)


def _variance(slope: Counts, shares: Counts) -> float:
    return float(shares @ slope**2 - (shares @ slope) ** 2)


def _noncentrality(x: float, freedom: float, level: float) -> float:
    """The noncentrality under which a value of at most `x` has probability `level`."""
    from scipy.optimize import brentq
    from scipy.stats import chi2, ncx2, norm

    if chi2.cdf(x, freedom) <= level:
        return 0.0
    z = float(norm.ppf(level))
    if x > 1e4:  # where the distribution is normal to all digits that matter
        return max(0.0, x - freedom - z * math.sqrt(2 * (2 * x - freedom)))
    above = x + 10 * (1 + abs(z)) * math.sqrt(x + 1) + 50
    root: float = brentq(lambda c: float(ncx2.cdf(x, freedom, c)) - level, 0.0, above, xtol=1e-6)
    return root
