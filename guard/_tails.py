"""P-values of "the bound is broken" from counts, computed without scipy."""

from __future__ import annotations

import math


def whole(loss: float) -> int:
    """Round a loss up to whole questions; sums such as .1 + .2 do not cost a whole one."""
    return math.ceil(loss - 1e-9)


def binomial_tail(errors: int, n: int, risk: float) -> float:
    """P(Bin(n, risk) ≤ errors): the exact p-value of so many errors; 1.0 where `n` is 0.

    Example:
        >>> round(binomial_tail(5, 100, 0.1), 4)
        0.0576
    """
    import numpy as np

    if not n or errors >= n:
        return 1.0
    k = np.arange(errors, dtype=np.float64)
    # Logarithms of the chances of 0, 1, … errors, so that no term is lost.
    steps = np.log((n - k) / (k + 1.0)) + (math.log(risk) - math.log1p(-risk))
    terms = n * math.log1p(-risk) + np.append(0.0, np.cumsum(steps))
    return min(1.0, float(np.exp(terms).sum()))


def hoeffding_bentkus(loss: float, n: int, risk: float) -> float:
    """P-value of the mean of losses in [0, 1]; 1.0 where `n` is 0.

    Source: Bates et al. 2021, Distribution-free, risk-controlling prediction sets.

    Example:
        >>> round(hoeffding_bentkus(2.0, 100, 0.1), 4)
        0.0053
    """
    if not n:
        return 1.0
    mean = min(loss / n, risk)
    entropy = sum(
        seen * math.log(seen / bound)
        for seen, bound in ((mean, risk), (1.0 - mean, 1.0 - risk))
        if seen > 0.0
    )
    bentkus = math.e * binomial_tail(min(n, whole(loss)), n, risk)
    return min(1.0, bentkus, math.exp(-n * max(0.0, entropy)))
