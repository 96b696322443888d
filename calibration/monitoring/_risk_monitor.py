"""Is the promised risk still kept? Evidence from feedback, valid at every moment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...guard.decision import Route
from ...guard.errors import InputError
from ...guard.policy import Histogram, Policy
from .. import Interval
from ._distance import (
    Counts,
    Distance,
    band,
    checked_counts,
    index_interval,
    largest_gap,
    p_value,
    smoothed_shares,
)
from ._state import number, probability, state_of, whole

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


_DRAWS = 499
_HALVINGS = 40
# Shares that Fieller's set is told in.
_SHARES = 1001


@dataclass(frozen=True, slots=True)
class MixtureComparison:
    """Live values against the mixture of two calibration histograms that fits them best.

    Attributes:
        share: of the first histogram in the mixture; its `n` are live values.
        psi: PSI to the best mixture.
        ks: Kolmogorov–Smirnov distance to it.
    """

    share: Interval
    psi: Distance
    ks: Distance


def compare_with_mixture(
    first: Histogram,
    second: Histogram,
    observed: Sequence[int],
    *,
    confidence: float = 0.95,
    draws: int = _DRAWS,
    seed: int = 0,
) -> MixtureComparison:
    """Fit the share of `first` by maximum likelihood, then compare with the mixture.

    Leave-one-out calibration measures each question twice, with its source and without.
    Live questions are some of both, in an unknown proportion: what can be
    asked is whether any mixture explains them. A change of the proportion alone
    is then no drift; it shows as another `share`, and in the abstention rate.

    p-values and means without drift come from a parametric bootstrap that refits each time
    (approximate, unlike those of a single histogram; the two histograms count as independent).
    The interval of the share holds the fit and Fieller's set of shares (`_fieller`).

    Args:
        first: for example of questions with their source in place.
        second: of the same bins.
        observed: live values per bin, shape (bins,).
        confidence: coverage of the intervals, in (0, 1).
        draws: of the bootstrap.
        seed: of these.

    Raises:
        InputError: bins differ, or the counts do not fit them.
    """
    if first.edges != second.edges:
        raise InputError("the two calibration histograms have different bins")
    a, live = checked_counts(first, observed)
    b = np.asarray(second.counts, dtype=np.float64)
    sizes = int(a.sum()), int(b.sum()), int(live.sum())
    if not all(sizes):
        nothing = Distance(None, None, None, None, None, min(sizes[:2]), sizes[2])
        return MixtureComparison(Interval(), nothing, nothing)
    occupied = (a + b + live) > 0
    share, psi, ks = _fitted(a, b, live, occupied)
    drawn = _without_drift(a, b, sizes, float(share), occupied, draws, seed)
    found = float(share)
    low, high = _fieller(first.edges, (a, b, live), confidence)
    return MixtureComparison(
        Interval(found, min(low, found), max(high, found), sizes[2]),
        _psi(float(psi), drawn[1], (a, b, live), occupied, found, confidence),
        _ks(float(ks), drawn[2], sizes, found, confidence),
    )


def _fieller(
    edges: Sequence[float], counts: tuple[Counts, Counts, Counts], confidence: float
) -> tuple[float, float]:
    """The shares of which the live mean may be that of the mixture, by the middles of the bins.

    The mean of a mixture is linear in its share, and a middle is fixed by the calibration, so that
    neither few counts per bin nor heavy tails of raw scores matter. Standard errors of the two
    calibration means are added, as if the histograms, which are of the same questions, moved
    together: that is the most.

    Returns:
        The ends of the set; where no share explains the mean, the one that comes nearest.

    Source: Fieller 1954, Some problems in interval estimation.
    """
    from scipy.special import stdtrit

    middles = (np.asarray(edges[:-1]) + np.asarray(edges[1:])) / 2
    means = [float(side @ middles / side.sum()) for side in counts]
    errors = [
        math.sqrt(float(side @ (middles - mean) ** 2) / side.sum() / max(1.0, side.sum() - 1.0))
        for side, mean in zip(counts, means, strict=True)
    ]
    shares = np.linspace(0.0, 1.0, _SHARES)
    off = np.abs(means[2] - shares * means[0] - (1 - shares) * means[1])
    error = np.hypot(shares * errors[0] + (1 - shares) * errors[1], errors[2])
    fewest = max(1.0, min(float(side.sum()) for side in counts) - 1.0)
    beyond = off - float(stdtrit(fewest, 0.5 + confidence / 2)) * error
    held = shares[beyond <= max(0.0, float(beyond.min()))]
    return float(held[0]), float(held[-1])


def _fitted(
    a: Counts, b: Counts, live: Counts, occupied: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Counts, Counts, Counts]:
    """Share, PSI and KS for counts of shape (..., bins)."""
    p_a, p_b = smoothed_shares(a, occupied), smoothed_shares(b, occupied)
    low, high = np.zeros(live.shape[:-1]), np.ones(live.shape[:-1])
    for _ in range(_HALVINGS):  # the likelihood is concave in the share
        middle = (low + high) / 2
        mixed = middle[..., None] * p_a + (1 - middle[..., None]) * p_b
        slope = np.sum(live * (p_a - p_b) / np.where(occupied, mixed, 1.0), axis=-1)
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    share = np.asarray((low + high) / 2)
    weight = share[..., None]
    q = smoothed_shares(live, occupied)
    p = np.where(occupied, weight * p_a + (1 - weight) * p_b, 1.0)
    psi = np.sum(np.where(occupied, (q - p) * np.log(np.where(occupied, q, 1.0) / p), 0.0), axis=-1)
    raw = weight * a / a.sum(axis=-1, keepdims=True) + (1 - weight) * b / b.sum(
        axis=-1, keepdims=True
    )
    return share, np.asarray(psi), largest_gap(raw, live)


def _without_drift(
    a: Counts,
    b: Counts,
    sizes: tuple[int, int, int],
    share: float,
    occupied: np.ndarray[tuple[int], np.dtype[np.bool_]],
    draws: int,
    seed: int,
) -> tuple[Counts, Counts, Counts]:
    rng = np.random.default_rng(seed)
    p_a, p_b = smoothed_shares(a, occupied), smoothed_shares(b, occupied)
    mixed = share * p_a + (1 - share) * p_b
    sides = [
        rng.multinomial(n, p / p.sum(), size=draws).astype(np.float64)
        for n, p in zip(sizes, (p_a, p_b, mixed), strict=True)
    ]
    return _fitted(sides[0], sides[1], sides[2], occupied)


def _psi(
    found: float,
    drawn: Counts,
    counts: tuple[Counts, Counts, Counts],
    occupied: np.ndarray[tuple[int], np.dtype[np.bool_]],
    share: float,
    confidence: float,
) -> Distance:
    a, b, live = counts
    effective = 1 / (share**2 / a.sum() + (1 - share) ** 2 / b.sum())
    p = share * smoothed_shares(a, occupied) + (1 - share) * smoothed_shares(b, occupied)
    q = smoothed_shares(live, occupied)
    without = float(drawn.mean())
    low, high = index_interval(
        found, without, p[occupied], q[occupied], (effective, float(live.sum())), confidence
    )
    n = int(min(a.sum(), b.sum()))
    return Distance(found, low, high, without, p_value(found, drawn), n, int(live.sum()))


def _ks(
    found: float, drawn: Counts, sizes: tuple[int, int, int], share: float, confidence: float
) -> Distance:
    miss = (1 - confidence) / 3
    half = share * band(sizes[0], miss) + (1 - share) * band(sizes[1], miss) + band(sizes[2], miss)
    return Distance(
        found,
        max(0.0, found - half),
        min(1.0, found + half),
        float(drawn.mean()),
        p_value(found, drawn),
        min(sizes[:2]),
        sizes[2],
    )


_MOST_RATES = 64
_STATE = "risk_monitor"


class RiskMonitor:
    """Watches the share of wrong replies among those let through, label by label.

    Two statements, each valid at all times at once, however often one looks:

    - `alarm`: the evidence against "the risk is at most α" has reached 1/δ. If every
      reply is wrong with probability at most α given all before it, that ever
      happens with probability δ at most.
    - `estimate`: the share of wrong replies so far with bounds that cover a constant
      risk at all times together but with probability δ.

    After a long good time it takes as much bad news to raise an alarm as the good news
    has outweighed: start again after a recalibration, and watch the estimate too.
    Not for several threads at once; `DecisionMonitor` sees to that.

    Args:
        risk: the promised bound α, in (0, 1).
        delta: probability δ of a false alarm, ever; in (0, 1).
        least_rate: the smallest sampling rate that will occur. Where labels are asked for
            at one rate, whatever the reply, leave it at 1 and report labelled replies only.
            Where the rate depends on what is known of a reply, report every reply: labelled
            ones with `observe(wrong, rate=…)`, the others with `skip(rate=…)`; labels
            then weigh 1/rate. At most 64 different rates.

    Raises:
        InputError: a number is out of range.

    Source: Waudby-Smith and Ramdas 2024; Howard, Ramdas, McAuliffe and Sekhon 2021.

    Example:
        >>> monitor = RiskMonitor(0.1, 0.1)
        >>> for wrong in [False] * 20 + [True] * 12:
        ...     monitor.observe(wrong)
        >>> monitor.alarm, monitor.replies, monitor.alarmed_at
        (True, 32, 29)
    """

    def __init__(self, risk: float, delta: float = 0.1, *, least_rate: float = 1.0) -> None:
        self.risk = probability(risk, "risk")
        self.delta = probability(delta, "delta")
        self.least_rate = probability(least_rate, "least_rate", or_one=True)
        self._counts: dict[float, int] = {0.0: 0}
        self._labels = 0
        self._alarmed_at: int | None = None

    @property
    def replies(self) -> int:
        """Replies reported, labelled or not."""
        return sum(self._counts.values())

    @property
    def labels(self) -> int:
        """Labelled replies among them."""
        return self._labels

    @property
    def alarm(self) -> bool:
        """Whether the evidence has ever reached 1/δ."""
        return self._alarmed_at is not None

    @property
    def alarmed_at(self) -> int | None:
        """Replies reported when it first did; None before."""
        return self._alarmed_at

    def observe(self, wrong: bool, *, rate: float = 1.0) -> None:
        """Take in one label.

        Args:
            wrong: whether the reply that was let through is wrong.
            rate: probability with which this reply was picked for labelling.

        Raises:
            InputError: `wrong` is no bool, or the rate is not within [`least_rate`, 1].
        """
        if not isinstance(wrong, bool):
            raise InputError("feedback is neither true nor false")
        rate = self._checked(rate)
        self._labels += 1
        value = 1 / rate if wrong else 0.0
        if value not in self._counts and len(self._counts) > _MOST_RATES:
            self._labels -= 1
            raise InputError(
                f"more than {_MOST_RATES} different sampling rates", hint="round them to a few"
            )
        self._counts[value] = self._counts.get(value, 0) + 1
        # A right reply never adds evidence.
        if wrong and self._alarmed_at is None and self.log_evidence >= -math.log(self.delta):
            self._alarmed_at = self.replies

    def skip(self, *, rate: float) -> None:
        """Take in that a reply was let through and, at this rate, not picked for labelling.

        Raises:
            InputError: the rate is not within [`least_rate`, 1).
        """
        if self._checked(rate) == 1:
            raise InputError(
                "a reply that was certain to be picked has no label",
                hint="leave it out, or tell the rate at which such replies are picked",
            )
        self._counts[0.0] += 1

    @property
    def log_evidence(self) -> float:
        """Natural logarithm of the evidence against "the risk is at most α", as of now."""
        values, counts = self._arrays()
        return float(log_evidence_above(values, counts, self.risk))

    @property
    def estimate(self) -> Interval:
        """Share of wrong replies with bounds valid at all times; `n` counts replies."""
        values, counts = self._arrays()
        n = self.replies
        if not n:
            return Interval(None, None, None, 0)
        low, high = confidence_sequence(values, counts, self.delta, 1 / self.least_rate)
        share = min(1.0, float(values @ counts) / n)
        return Interval(share, min(low, share), max(high, share), n)

    def to_dict(self) -> dict[str, Any]:
        """Everything it knows, as JSON holds it; `from_dict` gives back its equal."""
        return {
            "kind": _STATE,
            "risk": self.risk,
            "delta": self.delta,
            "least_rate": self.least_rate,
            "counts": [[value, count] for value, count in self._counts.items()],
            "labels": self._labels,
            "alarmed_at": self._alarmed_at,
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> RiskMonitor:
        """Restore a monitor from `to_dict`.

        Raises:
            InputError: the state is not one of a risk monitor.
        """
        found = state_of(state, _STATE)
        monitor = cls(
            number(found, "risk"), number(found, "delta"), least_rate=number(found, "least_rate")
        )
        pairs = found.get("counts")
        if not isinstance(pairs, list) or not all(
            isinstance(pair, list) and len(pair) == 2 for pair in pairs
        ):
            raise InputError("field 'counts' of a saved risk monitor is broken")
        for value, count in pairs:
            pair = {"value": value, "count": count}
            amount = number(pair, "value")
            if amount != 0 and not 1 <= amount <= 1 / monitor.least_rate:
                raise InputError("field 'counts' of a saved risk monitor is broken")
            monitor._counts[amount] = whole(pair, "count")
        monitor._labels = whole(found, "labels")
        if monitor._labels > monitor.replies:
            raise InputError("field 'labels' of a saved risk monitor exceeds its replies")
        if found.get("alarmed_at") is not None:
            monitor._alarmed_at = whole(found, "alarmed_at")
            if not 1 <= monitor._alarmed_at <= monitor.replies:
                raise InputError("field 'alarmed_at' of a saved risk monitor is no reply of it")
        return monitor

    def _checked(self, rate: float) -> float:
        is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
        if not is_number or not self.least_rate <= rate <= 1:
            raise InputError(
                f"sampling rate {rate!r} is not within [{self.least_rate}, 1]",
                hint="declare least_rate=… when the monitor is made",
            )
        return float(rate)

    def _arrays(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        return (
            np.array(list(self._counts), dtype=np.float64),
            np.array(list(self._counts.values()), dtype=np.float64),
        )


ALL = "all"
LET_THROUGH = (Route.FOLLOW_CONTEXT, Route.ANSWER)
_WATCHED = {
    "selective": ALL, "follow": Route.FOLLOW_CONTEXT.value, "answer": Route.ANSWER.value,
}  # fmt: skip
_NAMES = (ALL, *(route.value for route in LET_THROUGH))


def promised_bounds(policy: Policy) -> dict[str, float]:
    """`all` or a route → the share of wrong replies that the guarantee allows it at most.

    Empty where the guarantee speaks of something else: how often unanswerable questions
    pass (leave-one-out), costs, or abstentions; and where nothing was certified.
    """
    guarantee = policy.guarantee
    if guarantee is None or not guarantee.certified or "relevance.in_kb" in policy.histograms:
        return {}
    if not guarantee.risks:
        return {ALL: guarantee.risk}
    bounds: dict[str, float] = {}
    for risk in guarantee.risks:
        if (name := _WATCHED.get(risk.kind)) is not None:
            bounds[name] = min(risk.bound, bounds.get(name, 1.0))
    return bounds


def risk_monitors(
    policy: Policy, risk: float | None, delta: float | None, least_rate: float
) -> tuple[dict[str, RiskMonitor], frozenset[str]]:
    """Monitors by name (`all`, routes), and the names of those that hold a promise.

    Several promises share `delta`, so that a false alarm of any of them has that
    probability. The others, each at `delta`, are reported but not promised: routes are
    compared with the bound of all replies, all replies against the laxest bound of the routes.
    """
    bounds = promised_bounds(policy) if risk is None else {ALL: risk}
    if delta is None:
        delta = 0.1 if policy.guarantee is None else policy.guarantee.delta
    # Also where nothing is watched: to find a bad number now.
    RiskMonitor(0.5, delta, least_rate=least_rate)
    found = {}
    for name in _NAMES:
        share = delta / len(bounds) if name in bounds else delta
        bound = bounds.get(name, bounds.get(ALL))
        if name == ALL and bound is None and len(bounds) == len(LET_THROUGH):
            bound = max(bounds.values())
        if bound is not None:
            found[name] = RiskMonitor(bound, share, least_rate=least_rate)
    return found, frozenset(bounds)
