"""Correct a judge's rate by a sample that people labelled."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ...calibration import Interval
from ...calibration.statistics import Floats
from .labelling import Labels

Numbers = Sequence[float] | Floats
# Of the normal distribution, for an interval of 95 %.
_Z = NormalDist().inv_cdf(0.975)


def prediction_powered_rate(
    human: Sequence[bool] | Numbers,
    judge: Sequence[bool] | Numbers,
    judge_unlabelled: Sequence[bool] | Numbers,
    *,
    weights: Numbers | None = None,
    groups: Sequence[str] | None = None,
    groups_unlabelled: Sequence[str] | None = None,
) -> Interval:
    """The rate of people's positives over all replies, from few labels and many judgements.

    The judge's rate over all replies plus the mean difference between people and judge on
    the labelled ones, the judge weighted by how well it agrees with people (power tuning).
    The 95 % interval allows for disagreements too rare to be among the labels.

    Args:
        human: people's labels, 1 for the positive outcome, shape (n,).
        judge: the judge's for the same replies; `judge_unlabelled`: for all others, (m,).
        weights: one over the chance of each labelled reply to be labelled (Särndal et al. 1992).
        groups: unit of each labelled reply; `groups_unlabelled`: of the others. Both or none.

    Returns:
        The interval, cut to [0, 1]; `n` counts labelled replies. Undefined without labels.

    Source: Angelopoulos, Duchi & Zrnic 2023, PPI++: efficient prediction-powered inference.

    Example:
        >>> rate = prediction_powered_rate([1, 1, 0, 0] * 25, [1, 1, 1, 0] * 25, [1, 1, 0] * 300)
        >>> round(rate.value, 2), rate.low < 0.5 < rate.high
        (0.46, True)
    """
    given = (human, judge, judge_unlabelled)
    truth, labelled, other = (np.asarray(values, dtype=np.float64) for values in given)
    if not len(truth):
        return Interval()
    each = np.ones(len(truth)) if weights is None else np.asarray(weights, dtype=np.float64)
    shares, everything = each / each.sum(), np.concatenate([labelled, other])
    names = range(len(everything)) if groups is None else [*groups, *(groups_unlabelled or ())]
    units = np.unique(np.asarray(names), return_inverse=True)[1]
    tuned = _power(truth, labelled, other, shares)
    difference = truth - tuned * labelled
    mean, powered = float(shares @ difference), tuned * float(everything.mean())
    value = _unit(powered + mean)
    effective = min(1 / float(shares @ shares), len(np.unique(units[: len(truth)])))
    if len(truth) < 2 or effective < 2:
        return Interval(value, None, None, len(truth))
    variance = _clustered_variance(tuned * everything / len(everything), shares, difference, units)
    mean, variance = _with_rare_disagreements(mean, variance, tuned, effective)
    least = Interval.wilson(0, int(effective)).high or 0.0
    half = max(_Z * math.sqrt(variance), least if np.array_equal(truth, labelled) else 0.0)
    low, high = _unit(powered + mean - half), _unit(powered + mean + half)
    return Interval(value, min(value, low), max(value, high), len(truth))


def _clustered_variance(
    part: Floats, shares: Floats, difference: Floats, units: NDArray[np.intp]
) -> float:
    """Variance of the rate over units, from what each reply adds to its error.

    Args:
        part: what the judgement of each reply adds to the rate, labelled ones first.
        shares: weight of each labelled reply.
        difference: between people and judge, likewise.
        units: number of the unit of each reply.
    """
    n = len(difference)
    # The two kinds are centred apart.
    mine = part[:n] + shares * (difference - shares @ difference)
    error = np.concatenate(
        [mine - mine.mean(), part[n:] - (part[n:].mean() if n < len(part) else 0)]
    )
    return float(np.sum(np.bincount(units, weights=error) ** 2))


def _with_rare_disagreements(
    mean: float, variance: float, tuned: float, n: float
) -> tuple[float, float]:
    """Mean difference and variance with z²/4 pseudo-observations of each disagreement.

    A miss and a false alarm that are rare may not be among the labels at all, and their
    spread then counts for nothing: with 50 labels and a rate of .03 the interval of PPI++
    covered the truth in 85 %, with a rate of .97 in 81 %, of 1,500 simulated samples. With
    weight 1 on the judge this is the adjustment of Bonett and Price for paired shares, with
    weight 0 that of Agresti and Coull with one pseudo-observation of each kind.

    Args:
        mean: of the differences of `n` labels.
        variance: of the rate.
        tuned: weight of the judge; a miss is a difference of 1, a false alarm of −tuned.
        n: effective number of labels.

    Source: Bonett & Price 2012, Adjusted Wald confidence interval for a difference of
    binomial proportions based on paired data; Agresti & Coull 1998.
    """
    added, whole = _Z * _Z / 4, n + _Z * _Z / 2
    weight = min(1.0, tuned)
    shrunk = (n * mean + added * (1 - weight)) / whole
    spread = added * ((1 - shrunk) ** 2 + (weight + shrunk) ** 2) / whole**2
    return shrunk, variance * (n / whole) ** 2 + spread


def _power(truth: Floats, labelled: Floats, other: Floats, shares: Floats) -> float:
    """Weight of the judge's rate over all replies, such that the variance is least.

    PPI++ states it for the unlabelled replies alone; over all replies it is larger by the
    share of those.
    """
    if not len(other):
        return 0.0
    of_rest = len(other) / (len(truth) + len(other))
    spread = float(np.var(np.concatenate([labelled, other]), ddof=1))
    if spread == 0.0:
        return 0.0
    together = float(shares @ ((truth - shares @ truth) * (labelled - shares @ labelled)))
    return min(1.0, max(0.0, together * of_rest / spread)) / of_rest


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))


def corrected_rate(
    labels: Labels,
    criterion: str,
    outcomes: Collection[str],
    verdicts: Mapping[str, str],
    questions: Mapping[str, str],
) -> Interval:
    """Estimate the rate that people would find, from a judge and a labelled sample.

    Replies that the judge gave no verdict on are left out, with their labels. Replies to
    one question count as one unit.

    Args:
        labels: of people, of a sample of the replies.
        criterion: that was judged and labelled.
        outcomes: that count together.
        verdicts: of the judge, by reply, of the replies whose rate it is.
        questions: id of the question of each reply.

    Returns:
        As `prediction_powered_rate`; undefined without labels.
    """
    agreed = labels.consensus(criterion)
    people = [name for name in agreed if name in verdicts]
    rest = [name for name in verdicts if name not in agreed]
    weights = labels.weights(people)
    return prediction_powered_rate(
        [agreed[name] in outcomes for name in people],
        [verdicts[name] in outcomes for name in people],
        [verdicts[name] in outcomes for name in rest],
        weights=None if weights is None else list(weights.values()),
        groups=[questions[name] for name in people],
        groups_unlabelled=[questions[name] for name in rest],
    )
