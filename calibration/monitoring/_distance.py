"""Two histograms over the same bins: how far apart, and how far apart chance alone puts them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ...guard.artefacts import Histogram
from ...guard.decision import Route, SignalName
from ...guard.errors import InputError
from ...guard.policy import Policy
from ...guard.routing import Signals, decide_route
from .. import Interval
from ..distributions import chi_squared_cdf, normal_quantile, root, student_quantile

Counts = NDArray[np.float64]

DRAWS = 999
# That each interval holds what it is of.
_CONFIDENCE = 0.95
_MOST_COUNTED = 500_000_000


@dataclass(frozen=True, slots=True)
class Distance:
    """A distance between calibration and live traffic.

    Attributes:
        value: the distance measured; None where one side is empty. It is above 0 even
            without any drift, by `without_drift` on average.
        low: lower end of the interval of the true distance.
        high: its upper end.
        without_drift: mean of the distance where both sides come from one distribution.
        p_value: share of the draws without drift that lie at least as far apart.
        n_calibration: questions of the calibration side.
        n_live: live values.
    """

    value: float | None
    low: float | None
    high: float | None
    without_drift: float | None
    p_value: float | None
    n_calibration: int
    n_live: int

    @property
    def excess(self) -> float | None:
        """The distance less what chance alone gives, never below 0; None where undefined."""
        if self.value is None or self.without_drift is None:
            return None
        return max(0.0, self.value - self.without_drift)

    @classmethod
    def undefined(cls, n_calibration: int, n_live: int) -> Distance:
        """Where one side is empty."""
        return cls(None, None, None, None, None, n_calibration, n_live)

    @classmethod
    def within(
        cls, value: float, half: float, without: Counts, n_calibration: int, n_live: int
    ) -> Distance:
        """A distance in [0, 1], with half the width of its interval and draws without drift."""
        low, high = max(0.0, value - half), min(1.0, value + half)
        p = p_value(value, without)
        return cls(value, low, high, float(without.mean()), p, n_calibration, n_live)


def checked_counts(expected: Histogram, observed: Sequence[int]) -> tuple[Counts, Counts]:
    """Both sides as arrays of shape (bins,).

    Raises:
        InputError: the live counts are not whole numbers, one per bin of `expected`.
    """
    try:
        live = np.asarray(observed, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError("the observed counts are no numbers") from None
    if live.shape != (len(expected.counts),):
        raise InputError(
            f"observed counts of shape {live.shape} for {len(expected.counts)} bins",
            hint="count the live values in the bins of the calibration histogram",
        )
    if not np.all(np.isfinite(live)) or np.any(live < 0) or np.any(live != np.floor(live)):
        raise InputError("the observed counts must be whole numbers, at least 0")
    return np.asarray(expected.counts, dtype=np.float64), live


def stability_index(expected: Counts, observed: Counts, occupied: NDArray[np.bool_]) -> Counts:
    """PSI of counts of shape (..., bins), half a question added to every occupied bin."""
    p, q = smoothed_shares(expected, occupied), smoothed_shares(observed, occupied)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(occupied, (q - p) * np.log(q / p), 0.0)
    return np.asarray(parts.sum(axis=-1))


def smoothed_shares(counts: Counts, occupied: NDArray[np.bool_]) -> Counts:
    """Shares of shape (..., bins), half a question added to every occupied bin."""
    added = np.where(occupied, counts + 0.5, 0.0)
    return np.asarray(added / added.sum(axis=-1, keepdims=True))


def largest_gap(expected: Counts, observed: Counts) -> Counts:
    """Largest difference of the two cumulative shares at a bin edge, for (..., bins) counts."""
    first = np.cumsum(expected, axis=-1) / expected.sum(axis=-1, keepdims=True)
    second = np.cumsum(observed, axis=-1) / observed.sum(axis=-1, keepdims=True)
    return np.asarray(np.abs(first - second).max(axis=-1))


def p_value(found: float, draws: Counts) -> float:
    """Share of `draws` at least as large as `found`, which counts as one of them."""
    # Equal splits must compare as equal, whatever the order of summation did to the last digit.
    return float((1 + np.sum(draws >= found * (1 - 1e-9))) / (1 + len(draws)))


def band(n: float, miss: float) -> float:
    """Half width of the band that holds a whole distribution function, but for `miss`."""
    return math.sqrt(math.log(2 / miss) / (2 * n))


_EDGES = tuple(i / 20 for i in range(21))


class MeasuredSignals(Protocol):
    """Calibrated signals of one question; a `CalibrationRecord` and a `Decision` have them."""

    @property
    def relevance(self) -> float | None:
        """In [0, 1], None where it was not measured."""

    @property
    def confidence(self) -> float | None:
        """In [0, 1], None likewise."""

    @property
    def conflict(self) -> bool | None:
        """Whether answers differ, None likewise."""


def is_measured(value: float | None) -> TypeGuard[float]:
    """Whether there is a value: NaN and infinity stand for a signal that failed."""
    return value is not None and math.isfinite(value)


def bin_of(edges: Sequence[float], value: float) -> int:
    """Index of the bin that holds `value`; what lies outside counts in the outermost bins.

    Example:
        >>> [bin_of((0.0, 0.5, 1.0), value) for value in (-1.0, 0.0, 0.5, 1.0)]
        [0, 0, 1, 1]
    """
    return min(max(bisect_right(edges, value) - 1, 0), len(edges) - 2)


def binned(edges: Sequence[float], values: Iterable[float]) -> tuple[int, ...]:
    """How many of `values` fall into each bin."""
    bins = len(edges) - 1
    found = np.searchsorted(edges, np.fromiter(values, dtype=np.float64), side="right") - 1
    counts: list[int] = np.bincount(np.clip(found, 0, bins - 1), minlength=bins).tolist()
    return tuple(counts)


def calibration_histograms(
    policy: Policy, questions: Iterable[MeasuredSignals]
) -> dict[str, Histogram]:
    """What live traffic is compared with: the histograms to keep in `policy`.

    Args:
        policy: thresholds and allowed routes as they will serve.
        questions: the calibration questions, one entry each, as they would arrive live.

    Returns:
        `relevance` and `confidence` of all questions that have them; `confidence.asked` of
        those for which a guard under `policy` measures confidence at all, which is what
        it can be compared with later; `abstained`: two bins, questions that pass
        and questions that are abstained from.
    """
    measured = list(questions)
    replayed = [
        Signals.replay(policy, one.relevance, one.confidence, one.conflict) for one in measured
    ]
    named: dict[str, list[float]] = {
        "relevance": [one.relevance for one in measured if is_measured(one.relevance)],
        "confidence": [one.confidence for one in measured if is_measured(one.confidence)],
        "confidence.asked": [
            one.confidence
            for one in replayed
            if SignalName.CONFIDENCE not in one.failed and one.confidence is not None
        ],
        "abstained": [float(decide_route(policy, one).route is Route.ABSTAIN) for one in replayed],
    }
    edges = {name: (0.0, 0.5, 1.0) if name == "abstained" else _EDGES for name in named}
    return {
        name: Histogram(edges=edges[name], counts=binned(edges[name], values))
        for name, values in named.items()
        if values
    }


def compare(
    expected: Histogram,
    observed: Sequence[int],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[Distance, Distance, Interval]:
    """Compare live counts with a calibration histogram of the same bins: PSI, KS and no share.

    The population stability index (PSI) is the sum over bins of (q - p) ln(q / p), p and q being
    the shares of calibration and live values. So that no bin is infinitely surprising, half a
    question is added to each bin on each side; bins that are empty on both sides are left out.
    Finite samples of one distribution have a PSI above 0: about (B - 1)(1/n + 1/m) for B well
    filled bins, n calibration questions and m live values. The rules of thumb ".1 is a change,
    .25 a large one" are for `excess`. The interval inverts the noncentral chi-square distribution
    that PSI / (1/n + 1/m) has near no drift, widened to the delta method's further away.

    KS is the largest gap between the cumulative shares (Kolmogorov–Smirnov). It is measured at the
    bin edges, the only places where a histogram tells the shares, so it is a lower bound of the
    distance of the values themselves. The interval (Dvoretzky–Kiefer–Wolfowitz on both sides, with
    Massart's constant) covers the binned distance at any sample size, and is wide.

    p-values and means without drift come from random splits of all values into sides of the same
    sizes, which is exact however thin the bins are.

    Args:
        expected: of the calibration questions.
        observed: live values per bin, shape (bins,).
        draws: random splits.
        seed: of these.

    Raises:
        InputError: the counts do not fit the histogram.

    Example:
        >>> histogram = Histogram(edges=(0.0, 0.5, 1.0), counts=(60, 40))
        >>> psi, ks, _ = compare(histogram, [40, 60])
        >>> round(psi.value, 3), round(psi.without_drift, 2), round(ks.value, 3)
        (0.159, 0.02, 0.2)
    """
    calibration, live = checked_counts(expected, observed)
    n, m = int(calibration.sum()), int(live.sum())
    if not n or not m:
        nothing = Distance.undefined(n, m)
        return nothing, nothing, Interval()
    pooled = (calibration + live).astype(np.int64)
    if pooled.sum() > _MOST_COUNTED:
        raise InputError(f"more than {_MOST_COUNTED:,} values cannot be compared")
    rng = np.random.default_rng(seed)
    drawn = rng.multivariate_hypergeometric(pooled, m, size=draws, method="marginals").astype(
        np.float64
    )
    split, occupied = (pooled - drawn, drawn), pooled > 0
    p, q = (smoothed_shares(side, occupied)[occupied] for side in (calibration, live))
    half = band(n, (1 - _CONFIDENCE) / 2) + band(m, (1 - _CONFIDENCE) / 2)
    gap = float(largest_gap(calibration, live))
    return (
        _index(
            float(stability_index(calibration, live, occupied)),
            stability_index(*split, occupied),
            (p, q),
            (n, m),
            Distance.undefined(n, m),
        ),
        Distance.within(gap, half, largest_gap(*split), n, m),
        Interval(),
    )


def _index(
    value: float,
    drawn: Counts,
    shares: tuple[Counts, Counts],
    sizes: tuple[float, float],
    counted: Distance,
) -> Distance:
    """A PSI with its interval.

    Args:
        value: the PSI.
        drawn: of draws without drift.
        shares: of calibration and live values in the bins that are occupied.
        sizes: how many values the shares are worth, of calibration and live ones.
        counted: how many there are.
    """
    mean = float(drawn.mean())
    low, high = index_interval(value, mean, *shares, sizes)
    p = p_value(value, drawn)
    return replace(counted, value=value, low=low, high=high, without_drift=mean, p_value=p)


def index_interval(
    value: float,
    without_drift: float,
    p: Counts,
    q: Counts,
    sizes: tuple[float, float],
) -> tuple[float, float]:
    """Interval of the true PSI; `p` and `q` are shares per bin, none of them 0."""
    scale = 1 / sizes[0] + 1 / sizes[1]
    if without_drift <= 0.0:  # one bin: both sides are the same whatever happens
        return 0.0, value
    tail = (1 - _CONFIDENCE) / 2
    freedom = without_drift / scale
    low = scale * _noncentrality(value / scale, freedom, 1 - tail)
    high = scale * _noncentrality(value / scale, freedom, tail)
    slope_p, slope_q = -np.log(q / p) - (q - p) / p, np.log(q / p) + (q - p) / q
    variance = _variance(slope_p, p) / sizes[0] + _variance(slope_q, q) / sizes[1]
    half = normal_quantile(1 - tail) * math.sqrt(variance)
    # The bias is `without_drift` near no drift and less further away: each end takes the worse.
    return max(0.0, min(low, value - without_drift - half)), max(high, value + half)


def _variance(slope: Counts, shares: Counts) -> float:
    return float(shares @ slope**2 - (shares @ slope) ** 2)


def _noncentrality(x: float, freedom: float, level: float) -> float:
    """The noncentrality under which a value of at most `x` has probability `level`."""
    if chi_squared_cdf(x, freedom) <= level:
        return 0.0
    z = normal_quantile(level)
    if x > 1e4:  # where the distribution is normal to all digits that matter
        return max(0.0, x - freedom - z * math.sqrt(2 * (2 * x - freedom)))
    above = x + 10 * (1 + abs(z)) * math.sqrt(x + 1) + 50
    return root(lambda c: chi_squared_cdf(x, freedom, c) - level, 0.0, above, within=1e-6)


_DRAWS = 499
_HALVINGS = 40
# Shares that Fieller's set is told in.
_SHARES = 1001


def compare_with_mixture(
    first: Histogram,
    second: Histogram,
    observed: Sequence[int],
    *,
    draws: int = _DRAWS,
    seed: int = 0,
) -> tuple[Distance, Distance, Interval]:
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
        nothing = Distance.undefined(min(sizes[:2]), sizes[2])
        return nothing, nothing, Interval()
    occupied = (a + b + live) > 0
    fitted, psi, ks = (float(found) for found in _fitted(a, b, live, occupied))
    _, drawn_psi, drawn_ks = _without_drift(a, b, sizes, fitted, occupied, draws, seed)
    p_a, p_b, q = (smoothed_shares(side, occupied)[occupied] for side in (a, b, live))
    effective = 1 / (fitted**2 / sizes[0] + (1 - fitted) ** 2 / sizes[1])
    miss = (1 - _CONFIDENCE) / 3
    bands = [band(size, miss) for size in sizes]
    n, m = min(sizes[:2]), sizes[2]
    return (
        _index(
            psi,
            drawn_psi,
            (fitted * p_a + (1 - fitted) * p_b, q),
            (effective, float(m)),
            Distance.undefined(n, m),
        ),
        Distance.within(ks, fitted * bands[0] + (1 - fitted) * bands[1] + bands[2], drawn_ks, n, m),
        Interval(fitted, *_fieller(first.edges, (a, b, live)), m).around(fitted),
    )


def _fieller(edges: Sequence[float], counts: tuple[Counts, Counts, Counts]) -> tuple[float, float]:
    """The shares of which the live mean may be that of the mixture, by the middles of the bins.

    The mean of a mixture is linear in its share, and a middle is fixed by the calibration, so that
    neither few counts per bin nor heavy tails of raw scores matter. Standard errors of the two
    calibration means are added, as if the histograms, which are of the same questions, moved
    together: that is the most.

    Returns:
        The ends of the set; where no share explains the mean, the one that comes nearest.

    Source: Fieller 1954, Some problems in interval estimation.
    """
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
    beyond = off - student_quantile(0.5 + _CONFIDENCE / 2, fewest) * error
    held = shares[beyond <= max(0.0, float(beyond.min()))]
    return float(held[0]), float(held[-1])


def _fitted(
    a: Counts, b: Counts, live: Counts, occupied: NDArray[np.bool_]
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
    occupied: NDArray[np.bool_],
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
