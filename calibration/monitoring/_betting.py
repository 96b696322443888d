"""Evidence by betting, valid at every moment: pure functions of counted values.

A gambler who starts with 1 and stakes a share k of what he has on "the mean is
above m" multiplies his capital by 1 - k + k·x/m with each value x ≥ 0. If the mean is
m or less, whatever came before, the capital falls on average, so it ever reaches
1/δ with probability δ at most (Ville). Many gamblers with different stakes are
averaged, so no stake has to be chosen. The product does not depend on the order of
the values: counts of each value are all that needs to be kept.

Source: Waudby-Smith and Ramdas 2024, Estimating means of bounded random variables by
betting; Howard, Ramdas, McAuliffe and Sekhon 2021, Time-uniform confidence sequences.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STAKES: Array = np.geomspace(0.001, 0.95, 32)


def log_evidence_above(values: Array, counts: Array, mean: float) -> Array:
    """Natural logarithm of the evidence that the mean lies above `mean`.

    Args:
        values: distinct values, at least 0, shape (v,).
        counts: how often each was seen, shape (..., v).
        mean: above 0.

    Returns:
        Shape (...,); 0 before the first value.
    """
    factors = 1 - STAKES + STAKES * (values / mean)[:, None]
    return _averaged(counts, factors)


def log_evidence_below(values: Array, counts: Array, mean: float, largest: float) -> Array:
    """Natural logarithm of the evidence that the mean lies below `mean`.

    Args:
        values: distinct values in [0, `largest`], shape (v,).
        counts: how often each was seen, shape (..., v).
        mean: below `largest`.
        largest: the largest value possible.
    """
    factors = 1 - STAKES + STAKES * ((largest - values) / (largest - mean))[:, None]
    return _averaged(counts, factors)


def confidence_sequence(
    values: Array, counts: Array, delta: float, largest: float = 1.0
) -> tuple[float, float]:
    """Bounds of the mean in [0, 1] that hold at all times together but with probability `delta`.

    All means are left that neither gambler, each starting with half of the capital,
    has made 1/δ against. Arguments as above, `counts` of shape (v,).
    """
    from scipy.optimize import brentq

    if not counts.sum():
        return 0.0, 1.0
    against = float(np.log(2 / delta))
    tiny = 1e-12

    def above(mean: float) -> float:
        return float(log_evidence_above(values, counts, mean)) - against

    def below(mean: float) -> float:
        return float(log_evidence_below(values, counts, mean, largest)) - against

    low = 0.0 if above(tiny) < 0 else 1.0 if above(1.0) >= 0 else brentq(above, tiny, 1.0)
    last = 1.0 - tiny
    high = 1.0 if below(last) < 0 else 0.0 if below(0.0) >= 0 else brentq(below, 0.0, last)
    return float(low), float(high)


def _averaged(counts: Array, factors: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(factors)
    logs = np.asarray(counts, dtype=np.float64) @ logs
    largest = logs.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.mean(np.exp(logs - largest), axis=-1)) + largest[..., 0])
