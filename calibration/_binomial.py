"""Exact binomial reasoning about a risk, one 0/1 loss per question."""

from __future__ import annotations

import math

SMALLEST_PROBABILITY = 1e-9


def binomial_p_value(errors: int, n: int, risk: float) -> float:
    """P-value of "the true risk is above `risk`" after `errors` in `n` questions.

    For 0/1 losses this tail is exact and never looser than Hoeffding–Bentkus.
    `n` counts independent questions, never passages or case variants.

    Returns 1.0 when `n` is 0: no evidence certifies nothing.

    Source: Bates et al. 2021, Distribution-free, risk-controlling prediction sets;
    Angelopoulos et al. 2021, Learn then Test.

    Example:
        >>> round(binomial_p_value(0, 22, 0.1), 4)
        0.0985
    """
    _require_probability(risk=risk)
    if not 0 <= errors <= n:
        raise ValueError(f"{errors} errors of {n} questions")
    if n == 0:
        return 1.0
    from scipy.special import bdtr

    return float(bdtr(errors, n, risk))


def errors_allowed(n: int, risk: float, delta: float) -> int | None:
    """Most errors in `n` questions that still certify `risk` at confidence 1 - `delta`.

    Returns None when not even an error-free run of `n` questions certifies it.

    Example:
        >>> errors_allowed(100, 0.1, 0.1), errors_allowed(10, 0.1, 0.1)
        (5, None)
    """
    _require_probability(risk=risk, delta=delta)
    if n == 0 or binomial_p_value(0, n, risk) > delta:
        return None
    from scipy.stats import binom

    # The quantile is the first k with cdf(k) >= delta; one below is the last certain one,
    # unless the tail hits delta exactly.
    first = int(binom.ppf(delta, n, risk))
    return first if binomial_p_value(first, n, risk) <= delta else first - 1


def questions_needed(risk: float, delta: float) -> int:
    """Questions from which on an error-free run certifies `risk` at confidence 1 - `delta`.

    Example:
        >>> questions_needed(0.1, 0.1), questions_needed(0.05, 0.1)
        (22, 45)
    """
    _require_probability(risk=risk, delta=delta)
    needed = max(1, math.ceil(math.log(delta) / math.log1p(-risk) - 1e-9))
    # Where the tail hits delta exactly, the test itself has the last word.
    while binomial_p_value(0, needed, risk) > delta:
        needed += 1
    return needed


def _require_probability(**values: float) -> None:
    for name, value in values.items():
        # Below that no number of questions helps, and above it nothing is left to certify.
        if not SMALLEST_PROBABILITY <= value <= 1 - SMALLEST_PROBABILITY:
            raise ValueError(f"{name} must be between 0 and 1, not {value}")
