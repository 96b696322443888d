"""P-values of "the true risk is above the bound" for bounded losses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._statistics import binomial_p_value

Floats = NDArray[np.float64]


def hoeffding_bentkus_p_value(total_loss: float, n: int, risk: float) -> float:
    """P-value of "the mean loss is above `risk`" after `total_loss` in `n` questions.

    For losses anywhere in [0, 1]. 0/1 losses have the exact binomial tail
    (`binomial_p_value`), which is never larger.

    Args:
        total_loss: sum of the losses, in [0, n].
        n: independent questions, never passages or case variants.
        risk: the bound, in (0, 1).

    Returns 1.0 when `n` is 0: no evidence certifies nothing.

    Raises:
        ValueError: an argument is out of its range.

    Source: Bates et al. 2021, Distribution-free, risk-controlling prediction sets;
    Angelopoulos et al. 2021, Learn then Test.

    Example:
        >>> round(hoeffding_bentkus_p_value(2.0, 100, 0.1), 4)
        0.0053
    """
    if not 0.0 <= total_loss <= n * (1 + 1e-12):
        raise ValueError(f"a total loss of {total_loss} in {n} questions")
    binomial_p_value(0, 0, risk)  # checks the bound
    return float(hoeffding_bentkus_p_values(np.asarray([total_loss]), n, risk)[0])


def hoeffding_bentkus_p_values(total_losses: Floats, n: int, risk: float) -> Floats:
    """`hoeffding_bentkus_p_value` of many totals at once; arguments are not checked."""
    if n == 0:
        return np.ones_like(total_losses)
    # Sums of floats such as 0.1 + 0.2 must not cost a whole question when rounded up.
    whole = np.minimum(n, np.ceil(total_losses - 1e-9))
    bentkus = math.e * binomial_p_values(whole, np.full(whole.shape, n), risk)
    mean = np.minimum(total_losses / n, risk)
    hoeffding = np.exp(-n * _relative_entropy(mean, risk))
    return np.asarray(np.minimum(1.0, np.minimum(bentkus, hoeffding)))


def binomial_p_values(errors: Floats, n: NDArray[np.int64], risk: float) -> Floats:
    """`binomial_p_value` of many counts at once; arguments are not checked."""
    from scipy.special import bdtr

    return np.asarray(np.where(n > 0, bdtr(errors, n, risk), 1.0), dtype=np.float64)


def _relative_entropy(observed: Floats, risk: float) -> Floats:
    """Of coins with `observed` against one with `risk`; 0 log 0 is 0."""
    from scipy.special import rel_entr

    found = rel_entr(observed, risk) + rel_entr(1.0 - observed, 1.0 - risk)
    return np.asarray(np.maximum(0.0, found))


def fixed_sequence(p_values: Sequence[float], delta: float) -> list[int]:
    """Indices rejected when testing in the given order, each at the full δ, until one holds.

    The order must not depend on the data that the p-values come from.

    Source: Angelopoulos et al. 2021, Learn then Test, section on fixed-sequence testing.

    Example:
        >>> fixed_sequence([0.01, 0.04, 0.2, 0.01], 0.1)
        [0, 1]
    """
    found = []
    for index, p_value in enumerate(p_values):
        if not p_value <= delta:  # NaN rejects nothing
            break
        found.append(index)
    return found
