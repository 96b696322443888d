"""Checked arrays of scores and outcomes, and bins of equal size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = Sequence[float] | Floats
"""One number per case."""
Outcomes = Sequence[bool] | Floats
"""Per case whether it came true; arrays hold 0.0 and 1.0."""


def scored_cases(scores: Numbers, outcomes: Outcomes) -> tuple[Floats, Floats]:
    """Finite scores and their outcomes as 0.0 and 1.0.

    Raises:
        ValueError: lengths differ, a score is NaN or infinite, an outcome is neither true
            nor false.
    """
    numbers, came_true = _same_length(scores, outcomes, "scores")
    if not np.isfinite(numbers).all():
        raise ValueError("scores must be finite")
    return numbers, came_true


def stated_cases(probabilities: Numbers, outcomes: Outcomes) -> tuple[Floats, Floats]:
    """Probabilities and their outcomes as 0.0 and 1.0.

    Raises:
        ValueError: lengths differ, a probability is outside [0, 1] or NaN, an outcome is
            neither true nor false.
    """
    stated, came_true = _same_length(probabilities, outcomes, "probabilities")
    if not ((stated >= 0.0) & (stated <= 1.0)).all():
        raise ValueError("probabilities must be between 0 and 1")
    return stated, came_true


def equal_mass_bins(ascending: Floats, bins: int) -> list[slice]:
    """Sorted numbers cut into bins of (as nearly as possible) equal size.

    Equal numbers are never parted: a cut among them moves up to the last of them. So
    there may be fewer than `bins`, and none is empty.

    Raises:
        ValueError: `bins` is below 1.

    Example:
        >>> [(b.start, b.stop) for b in equal_mass_bins(np.array([0.1, 0.2, 0.2, 0.3]), 2)]
        [(0, 3), (3, 4)]
    """
    if bins < 1:
        raise ValueError(f"there must be a bin, not {bins}")
    if not len(ascending):
        return []
    parts = np.array_split(ascending, min(bins, len(ascending)))
    ends = np.unique(np.searchsorted(ascending, [part[-1] for part in parts], side="right"))
    starts = [0, *ends[:-1].tolist()]
    return [slice(start, stop) for start, stop in zip(starts, ends.tolist(), strict=True)]


def _same_length(numbers: Numbers, outcomes: Outcomes, name: str) -> tuple[Floats, Floats]:
    values = np.asarray(numbers, dtype=np.float64)
    came_true = np.asarray(outcomes, dtype=np.float64)
    if values.shape != came_true.shape or values.ndim != 1:
        raise ValueError(f"{values.size} {name} for {came_true.size} outcomes")
    if not np.isin(came_true, (0.0, 1.0)).all():
        raise ValueError("outcomes must be true or false")
    return values, came_true
