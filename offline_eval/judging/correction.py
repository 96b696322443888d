"""Correct a judge's rate by a sample that people labelled."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ...calibration import Interval
from ..run import RepliesRun
from .labelling import Labels

Floats = NDArray[np.float64]
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

    Raises:
        ValueError: lengths differ, a value is off its range, or one kind of groups alone.

    Source: Angelopoulos, Duchi & Zrnic 2023, PPI++: efficient prediction-powered inference.

    Example:
        >>> rate = prediction_powered_rate([1, 1, 0, 0] * 25, [1, 1, 1, 0] * 25, [1, 1, 0] * 300)
        >>> round(rate.value, 2), rate.low < 0.5 < rate.high
        (0.46, True)
    """
    labelled, other = _unit_values(judge), _unit_values(judge_unlabelled)
    truth = _unit_values(human)
    if len(truth) != len(labelled):
        raise ValueError(f"{len(truth)} labels for {len(labelled)} judgements")
    shares = _shares(weights, len(truth))
    units = _units(groups, groups_unlabelled, len(truth), len(other))
    if not len(truth):
        return Interval()
    everything = np.concatenate([labelled, other])
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


def _shares(weights: Numbers | None, n: int) -> Floats:
    """Weights with sum 1, shape (n,)."""
    found = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if found.shape != (n,) or not np.isfinite(found).all() or (n and found.min() <= 0):
        raise ValueError("there must be one weight above 0 per label")
    shares: Floats = found / found.sum() if n else found
    return shares


def _units(
    groups: Sequence[str] | None, others: Sequence[str] | None, n: int, m: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Number of the unit of each reply, the labelled ones first, shape (n + m,)."""
    if groups is None and others is None:
        return np.arange(n + m)
    if groups is None or others is None or len(groups) != n or len(others) != m:
        raise ValueError("groups must be given for labelled and unlabelled replies, one each")
    names = [str(name) for name in (*groups, *others)]
    _, owner = np.unique(np.asarray(names), return_inverse=True)
    return np.asarray(owner, dtype=np.intp)


def _unit_values(values: Sequence[bool] | Numbers) -> Floats:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not np.all((found >= 0) & (found <= 1)):
        raise ValueError("labels and judgements must be numbers from 0 to 1, in one row")
    return found


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))


def corrected_rate(
    run: RepliesRun,
    judge: str,
    criterion: str,
    outcome: str | Collection[str],
    labels: Labels,
    *,
    among: Collection[str] | None = None,
) -> Interval:
    """Estimate the rate of `outcome` that people would find, from a judge and a labelled sample.

    Replies that the judge gave no verdict on are left out, with their labels. Replies to
    one question count as one unit.

    Args:
        run: with verdicts.
        judge: its name.
        criterion: that was judged and labelled.
        outcome: one of its outcomes, or several that count together.
        labels: of people.
        among: ids of the replies whose rate it is; None for all of the run. The labels
            among them must be a sample of these.

    Returns:
        As `prediction_powered_rate`; undefined without labels.
    """
    wanted = {outcome} if isinstance(outcome, str) else set(outcome)
    chosen = None if among is None else set(among)
    verdicts = {
        name: found in wanted
        for name, found in _outcomes(run, judge, criterion).items()
        if chosen is None or name in chosen
    }
    people = {
        name: label in wanted
        for name, label in labels.consensus(criterion).items()
        if name in verdicts
    }
    if not people:
        return Interval()
    weighing = labels.weights(people) or dict.fromkeys(people, 1.0)
    rest = [name for name in verdicts if name not in people]
    return prediction_powered_rate(
        list(people.values()),
        [verdicts[name] for name in people],
        [verdicts[name] for name in rest],
        weights=list(weighing.values()),
        groups=[run.question_of(run.replies[name]).question_id for name in people],
        groups_unlabelled=[run.question_of(run.replies[name]).question_id for name in rest],
    )


def _outcomes(run: RepliesRun, judge: str, criterion: str) -> dict[str, str]:
    """Reply id → the judge's verdict, where there is one."""
    return {
        found.reply_id: found.outcome
        for found in run.judgements.values()
        if found.judge == judge and found.criterion == criterion and found.outcome is not None
    }
