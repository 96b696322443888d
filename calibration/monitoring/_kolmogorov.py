"""The Kolmogorov–Smirnov distance of binned values."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...guard import Histogram
from ._distance import (
    DRAWS,
    Distance,
    checked_counts,
    largest_gap,
    p_value,
    splits_without_drift,
)


def ks_statistic(
    expected: Histogram,
    observed: Sequence[int],
    *,
    confidence: float = 0.95,
    draws: int = DRAWS,
    seed: int = 0,
) -> Distance:
    """Largest gap between the cumulative shares of calibration and live values.

    It is measured at the bin edges, the only places where a histogram tells the
    shares, so it is a lower bound of the distance of the values themselves. The
    interval (Dvoretzky–Kiefer–Wolfowitz on both sides, with Massart's constant) covers
    the binned distance at any sample size, and is wide. The p-value comes from random
    splits of all values into sides of the same sizes: exact, also with thin bins.

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
        >>> round(ks_statistic(histogram, [40, 60]).value, 3)
        0.2
    """
    calibration, live = checked_counts(expected, observed)
    n, m = int(calibration.sum()), int(live.sum())
    if not n or not m:
        return Distance(None, None, None, None, None, n, m)
    value = float(largest_gap(calibration, live))
    without = largest_gap(*splits_without_drift(calibration, live, draws, seed))
    half = band(n, (1 - confidence) / 2) + band(m, (1 - confidence) / 2)
    return Distance(
        value,
        max(0.0, value - half),
        min(1.0, value + half),
        float(without.mean()),
        p_value(value, without),
        n,
        m,
    )


def band(n: float, miss: float) -> float:
    """Half width of the band that holds a whole distribution function, but for `miss`."""
    return math.sqrt(math.log(2 / miss) / (2 * n))
