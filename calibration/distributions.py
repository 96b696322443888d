"""Distribution functions and quantiles of single numbers, without scipy.

What watches decisions in service needs a few of them, and scipy is 95 MB. Where many numbers are
needed at once, calibration uses scipy's.

Sources: Abramowitz & Stegun 1964, 6.5 (incomplete gamma) and 26.5 (incomplete beta);
Lentz 1976 (continued fractions); Chandrupatla 1997 (roots).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

_SMALL, _TINY = 1e-15, 1e-300
_STEPS = 100_000
_NORMAL = NormalDist()


def normal_quantile(level: float) -> float:
    """The number that a standard normal variable stays below with probability `level`.

    Example:
        >>> round(normal_quantile(0.975), 4)
        1.96
    """
    return _NORMAL.inv_cdf(level)


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


def student_quantile(level: float, freedom: float) -> float:
    """The number that a variable of Student's t stays below with probability `level`.

    Example:
        >>> round(student_quantile(0.975, 10), 4)
        2.2281
    """
    if level < 0.5:
        return -student_quantile(1.0 - level, freedom)
    # The square over itself and the freedom follows a beta distribution.
    share = beta_quantile(2 * level - 1, 0.5, freedom / 2)
    return math.sqrt(freedom * share / (1 - share)) if share < 1 else math.inf


def chi_squared_cdf(x: float, freedom: float, noncentrality: float = 0.0) -> float:
    """Probability that a (noncentral) chi-squared variable is at most `x`.

    Example:
        >>> round(chi_squared_cdf(3.841, 1), 4), round(chi_squared_cdf(5, 2, 3), 4)
        (0.95, 0.5941)
    """
    if x <= 0.0:
        return 0.0
    if noncentrality < 1e-12:
        return _gamma_cdf(x / 2, freedom / 2)
    # A mixture of central ones by Poisson weights; all that weigh anything stand around the mean.
    mean = noncentrality / 2
    reach = 10 * math.sqrt(mean) + 40
    steps = np.arange(max(0, int(mean - reach)), int(mean + reach) + 1)
    weights = np.exp([j * math.log(mean) - mean - math.lgamma(j + 1) for j in steps])
    shapes = freedom / 2 + steps
    # Each is the one of the next shape and one term, so that sums lose no digits.
    terms = np.exp([a * math.log(x / 2) - x / 2 - math.lgamma(a + 1) for a in shapes])
    last = _gamma_cdf(x / 2, float(shapes[-1]) + 1)
    central = last + np.cumsum(terms[::-1])[::-1]
    return min(1.0, float(weights @ central))


def _gamma_cdf(x: float, shape: float) -> float:
    """The regularised lower incomplete gamma function."""
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        added = total = 1.0 / shape
        for step in range(1, _STEPS):
            added *= x / (shape + step)
            total += added
            if added < total * _SMALL:
                break
        return min(1.0, front * total)
    # 1 / (x + 1 - a - 1(1 - a) / (x + 3 - a - …)), by its even part.
    upper = 1.0 / _TINY
    below = 1.0 / (x + 1 - shape)
    found = below
    for step in range(1, _STEPS):
        over, under = -step * (step - shape), x + 1 - shape + 2 * step
        below = 1.0 / _off_zero(over * below + under)
        upper = _off_zero(under + over / upper)
        found *= upper * below
        if abs(upper * below - 1.0) < _SMALL:
            break
    return max(0.0, 1.0 - front * found)


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
