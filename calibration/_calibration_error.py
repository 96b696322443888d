"""How far stated probabilities are from observed shares."""

from __future__ import annotations

import math

import numpy as np

from ._case_arrays import Numbers, Outcomes, equal_mass_bins, stated_cases


def expected_calibration_error(
    probabilities: Numbers, outcomes: Outcomes, *, bins: int = 10
) -> float | None:
    """Mean gap between stated probability and observed share, over bins of equal mass.

    Cases are sorted by probability and cut into bins of (as nearly as possible) equal size,
    each weighted by its size. Cases of equal probability share their mean outcome, so that
    the order in which they come never matters. With few cases per bin the gap is above zero
    even for perfect probabilities; `debiased_calibration_error` is not so biased.

    Args:
        probabilities: in [0, 1].
        outcomes: whether each case came true, as many.
        bins: at least 1; never more than there are cases.

    Returns:
        A gap in [0, 1]; None without cases.

    Raises:
        ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
            neither true nor false, or `bins` is below 1.

    Source: Naeini et al. 2015, Obtaining well calibrated probabilities using Bayesian
    binning; equal mass as in Nguyen & O'Connor 2015, Posterior calibration.

    Example:
        >>> expected_calibration_error([0.25, 0.25, 0.75, 0.75], [False, False, True, True], bins=2)
        0.25
    """
    if bins < 1:
        raise ValueError(f"there must be a bin, not {bins}")
    stated, came_true = stated_cases(probabilities, outcomes)
    if not len(stated):
        return None
    _, level, count = np.unique(stated, return_inverse=True, return_counts=True)
    shared = (np.bincount(level, weights=came_true) / count)[level]
    order = np.argsort(stated, kind="stable")
    gaps = [
        abs(float(stated[part].mean() - shared[part].mean())) * len(part)
        for part in np.array_split(order, min(bins, len(order)))
    ]
    return sum(gaps) / len(stated)


def debiased_calibration_error(
    probabilities: Numbers, outcomes: Outcomes, *, bins: int = 10
) -> float | None:
    """Root of the mean squared gap, less what chance alone adds to it.

    In a bin of m cases with observed share s, chance adds about s(1 - s)/(m - 1) to the
    squared gap between stated probability and observed share; that much is taken off. A
    bin of a single case says nothing of its chance and adds nothing. A sum below zero is
    no calibration error that can be seen: 0.

    Bins hold (as nearly as possible) equally many cases; cases of equal probability stay
    in one bin, so there may be fewer bins.

    Args:
        probabilities: in [0, 1].
        outcomes: whether each case came true, as many.
        bins: at least 1; never more than there are cases.

    Returns:
        A gap in [0, 1]; None without cases, or where no bin has two.

    Raises:
        ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
            neither true nor false, or `bins` is below 1.

    Source: Kumar, Liang & Ma 2019, Verified uncertainty calibration.

    Example:
        >>> debiased_calibration_error([0.5] * 4, [True, True, True, False])
        0.0
        >>> debiased_calibration_error([0.5] * 4, [True] * 4)
        0.5
    """
    stated, came_true = stated_cases(probabilities, outcomes)
    order = np.argsort(stated, kind="stable")
    stated, came_true = stated[order], came_true[order]
    cut = [part for part in equal_mass_bins(stated, bins) if part.stop - part.start > 1]
    if not cut:
        return None
    squared = 0.0
    for part in cut:
        size = part.stop - part.start
        share = float(came_true[part].mean())
        gap = float(stated[part].mean()) - share
        squared += size / len(stated) * (gap * gap - share * (1 - share) / (size - 1))
    return math.sqrt(max(0.0, squared))
