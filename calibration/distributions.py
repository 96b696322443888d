"""Bounds and roots of single numbers, without scipy.

What watches decisions in service needs a few of them, and scipy is 95 MB. Where many numbers are
needed at once, calibration uses scipy's.
"""

from __future__ import annotations

from collections.abc import Callable

from ..guard.artefacts import binomial_tail
from .statistics import Interval

_MOST_EXACT = 100_000


def binomial_upper_bound(events: int, trials: int, level: float) -> float:
    """The rate above which so few events in so many trials have a probability below `level`.

    Exact (Clopper and Pearson's) up to a hundred thousand trials, beyond Wilson's.

    Raises:
        ValueError: `level` is not in (0, 1).

    Example:
        >>> round(binomial_upper_bound(0, 10, 0.05), 4)
        0.2589
    """
    if not 0.0 < level < 1.0:
        raise ValueError("level must be in (0, 1)")
    if events >= trials:
        return 1.0
    if trials > _MOST_EXACT:
        return Interval.wilson(events, trials, 1.0 - 2.0 * level).high or 0.0
    return root(lambda rate: binomial_tail(events, trials, rate) - level, 1e-15, 1.0 - 1e-15)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Find by halving where a function that falls from above 0 to below it is zero."""
    while high - low > 2e-12 + 4e-16 * abs(low):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) < 0.0 else (middle, high)
    return (low + high) / 2
