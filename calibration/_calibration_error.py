"""How far stated probabilities are from observed shares."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def expected_calibration_error(
    probabilities: Sequence[float], outcomes: Sequence[bool], *, bins: int = 10
) -> float | None:
    """Mean gap between stated probability and observed share, over bins of equal mass.

    Cases are sorted by probability and cut into bins of (as nearly as possible) equal size,
    each weighted by its size. Cases of equal probability share their mean outcome, so that
    the order in which they come never matters. With few cases per bin the gap is above zero
    even for perfect probabilities.

    Args:
        probabilities: in [0, 1].
        outcomes: whether each case came true, as many.
        bins: at least 1; never more than there are cases.

    Returns:
        A gap in [0, 1]; None without cases.

    Raises:
        ValueError: lengths differ, a probability is outside [0, 1] or NaN, or `bins` is
            below 1.

    Source: Naeini et al. 2015, Obtaining well calibrated probabilities using Bayesian
    binning; equal mass as in Nguyen & O'Connor 2015, Posterior calibration.

    Example:
        >>> expected_calibration_error([0.25, 0.25, 0.75, 0.75], [False, False, True, True], bins=2)
        0.25
    """
    if bins < 1:
        raise ValueError(f"there must be a bin, not {bins}")
    stated = np.asarray(probabilities, dtype=np.float64)
    came_true = np.asarray(outcomes, dtype=np.float64)
    if stated.shape != came_true.shape:
        raise ValueError(f"{len(stated)} probabilities for {len(came_true)} outcomes")
    if not ((stated >= 0.0) & (stated <= 1.0)).all():
        raise ValueError("probabilities must be between 0 and 1")
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
