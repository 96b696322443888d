"""What a leak budget costs: how many good cases are turned away to keep the bad ones out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# A product such as 0.29 · 100 falls short of the whole number that it means.
_ROUNDING = 1e-9


def false_abstention_at_leak(
    positives: Sequence[float], negatives: Sequence[float], leak: float
) -> float | None:
    """Share of positives turned away where at most `leak` of the negatives pass.

    A case passes from the threshold on. The threshold is the most lenient one at which
    `leak · len(negatives)` negatives, rounded down, or fewer pass; a positive that ties with
    a negative passes only where that negative may pass too.

    Args:
        positives: scores of the cases that should pass.
        negatives: scores of the cases that should not.
        leak: share of negatives that may pass, in [0, 1].

    Returns:
        A share in [0, 1]; None where either kind is missing. Positives and negatives that
        cannot be told apart give about `1 - leak`.

    Raises:
        ValueError: a score is NaN, or `leak` is out of range.

    Example:
        >>> false_abstention_at_leak([0.9, 0.6, 0.4, 0.2], [0.5, 0.3, 0.1, 0.0], 0.25)
        0.25
    """
    if not 0.0 <= leak <= 1.0:
        raise ValueError(f"leak must be between 0 and 1, not {leak}")
    good = np.asarray(positives, dtype=np.float64)
    bad = np.sort(np.asarray(negatives, dtype=np.float64))[::-1]
    if np.isnan(good).any() or np.isnan(bad).any():
        raise ValueError("scores must not be NaN")
    if not len(good) or not len(bad):
        return None
    may_pass = math.floor(leak * len(bad) + _ROUNDING)
    if may_pass >= len(bad):
        return 0.0
    # The best negative that must not pass: the threshold is the next score above it.
    return float(np.mean(good <= bad[may_pass]))
