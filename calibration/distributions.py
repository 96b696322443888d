"""Distribution functions and quantiles of single numbers, without scipy.

What watches decisions in service needs a few of them, and scipy is 95 MB. Where many numbers are
needed at once, calibration uses scipy's.

Sources: Abramowitz & Stegun 1964, 26.5 (incomplete beta); Lentz 1976 (continued fractions).
"""

from __future__ import annotations

import math
from collections.abc import Callable

_SMALL, _TINY = 1e-15, 1e-300
_STEPS = 100_000


def beta_cdf(x: float, a: float, b: float) -> float:
    """Probability that a Beta(a, b) variable is at most `x`.

    Example:
        >>> round(beta_cdf(0.5, 2, 3), 4)
        0.6875
    """
    if not 0.0 < x < 1.0:
        return float(x >= 1.0)
    if x > (a + 1) / (a + b + 2):
        return 1.0 - beta_cdf(1.0 - x, b, a)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x)) / a

    def term(step: int) -> float:
        half = step // 2
        if step % 2:
            return -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        return half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))

    return front * _one_over_continued(term)


def beta_quantile(level: float, a: float, b: float) -> float:
    """The number that a Beta(a, b) variable stays below with probability `level`.

    Example:
        >>> round(beta_quantile(0.95, 1, 10), 4)
        0.2589
    """
    return root(lambda x: beta_cdf(x, a, b) - level, 0.0, 1.0)


def _one_over_continued(term: Callable[[int], float]) -> float:
    """1 / (1 + t₁ / (1 + t₂ / (1 + …))), by Lentz's method."""
    upper, below, found = 1.0, 0.0, 1.0
    for step in range(1, _STEPS):
        value = term(step)
        below = 1.0 / _off_zero(1.0 + value * below)
        upper = _off_zero(1.0 + value / upper)
        found *= upper * below
        if abs(upper * below - 1.0) < _SMALL:
            break
    return 1.0 / found


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def root(
    function: Callable[[float], float], low: float, high: float, *, within: float = 2e-12
) -> float:
    """Find by halving where a function between two ends of other signs is zero.

    Raises:
        ValueError: both ends have the same sign.
    """
    at_low, at_high = function(low), function(high)
    if at_low == 0.0 or at_high == 0.0:
        return low if at_low == 0.0 else high
    rises = at_low < 0.0
    if rises == (at_high < 0.0):
        raise ValueError("the function has the same sign at both ends")
    while high - low > within + 4e-16 * abs(low):
        middle = (low + high) / 2
        if (function(middle) < 0.0) == rises:
            low = middle
        else:
            high = middle
    return (low + high) / 2
