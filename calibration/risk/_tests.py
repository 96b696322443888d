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


# The exact tail of the two counts of errors that the level is spent on, as shares of δ. Chosen
# by simulation: no loss where the questions of a passage all go alike, most of the gain where
# they do not (`benchmarks/leak_certificate.py`).
_MAIN_TAIL, _SIDE_TAIL = 0.8, 0.2


def subsample_e_values(passages: int, risk: float, delta: float) -> Floats:
    """Evidence against "the pass rate is above `risk`", by errors among one question per passage.

    Two all-or-nothing bets on one question per passage, "at most k errors", whose chance is
    at most an exact binomial tail where the pass rate is at or above `risk`: one pays 1/δ,
    the other what is left of the level. Their mean under any such pass rate is at most 1.

    Args:
        passages: independent ones, each with a question.
        risk: bound on the pass rate, in (0, 1).
        delta: the level, in (0, 1).

    Returns:
        E-values of 0, 1, … errors; 0 beyond the last. Empty where not even a sample without
        an error certifies the bound.
    """
    from scipy.special import bdtr

    tails = bdtr(np.arange(passages + 1, dtype=np.float64), passages, risk)
    if passages == 0 or tails[0] > delta:
        return np.zeros(0)
    main, side = (
        max(0, int(np.searchsorted(tails, share * delta, side="right")) - 1)
        for share in (_MAIN_TAIL, _SIDE_TAIL)
    )
    weight = min(1.0, float(tails[main]) / delta)
    found = np.zeros(main + 1)
    found += weight / tails[main]
    found[: side + 1] += (1.0 - weight) / tails[side]
    return found


def subsample_p_values(shares: Floats, e_values: Floats) -> Floats:
    """P-values of "the pass rate is above the bound" from all questions of each passage.

    The e-value of one question per passage, averaged over every way of drawing them: an
    average of e-values is an e-value, however they depend on each other, and its inverse
    a p-value. No draw is made: the number of errors in a draw is a sum of independent
    coins, one per passage.

    Args:
        shares: of each passage's questions that pass, shape (points, passages).
        e_values: by number of errors, of `subsample_e_values`.

    Returns:
        Shape (points,), in [0, 1].

    Source: Vovk & Wang 2021, E-values: calibration, combination and applications, for the
    average; Dunn, Wasserman & Ramdas 2022, Distribution-free prediction sets for two-layer
    hierarchical models, for repeated subsampling.
    """
    points = len(shares)
    if not len(e_values):
        return np.ones(points)
    # Chances of 0, 1, … errors among the passages so far.
    chances = np.zeros((points, len(e_values)))
    chances[:, 0] = 1.0
    for share in shares.T[:, :, None]:
        passed = chances[:, :-1] * share
        chances *= 1.0 - share
        chances[:, 1:] += passed
    # Evidence of exactly 1/δ must not fall short of it by the last bit.
    evidence = chances @ e_values * (1.0 + 1e-9)
    return np.asarray(np.minimum(1.0, 1.0 / np.maximum(evidence, 1.0)))
