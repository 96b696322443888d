"""Two histograms over the same bins: how far apart, and how far apart chance alone puts them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...guard.artefacts import Histogram
from ...guard.contracts import finite_or_none
from ...guard.decision import Route, SignalName
from ...guard.errors import InputError
from ...guard.policy import Policy
from ...guard.routing import Signals, decide_route
from ..statistics import Floats

DRAWS = 999
_MOST_COUNTED = 500_000_000


@dataclass(frozen=True, slots=True)
class Distance:
    """A distance between calibration and live traffic.

    Attributes:
        value: the distance measured. It is above 0 even without any drift, by `without_drift`
            on average.
        without_drift: mean of the distance where both sides come from one distribution.
        p_value: share of the draws without drift that lie at least as far apart.
    """

    value: float
    without_drift: float
    p_value: float

    @classmethod
    def of(cls, value: Floats | float, draws: Floats) -> Distance:
        """A distance among draws without drift, of which it counts as one."""
        found = float(value)
        # Equal splits must compare as equal, whatever the order of summation did to the last digit.
        beyond = np.sum(draws >= found * (1 - 1e-9))
        return cls(found, float(draws.mean()), float((1 + beyond) / (1 + len(draws))))

    @property
    def excess(self) -> float:
        """The distance less what chance alone gives, never below 0."""
        return max(0.0, self.value - self.without_drift)


def _checked_counts(observed: Sequence[int], *expected: Histogram) -> tuple[Floats, ...]:
    """Live counts and those of histograms as arrays of shape (bins,)."""
    found = tuple(np.asarray(x, np.float64) for x in (observed, *(one.counts for one in expected)))
    if len({one.edges for one in expected}) > 1 or len({one.shape for one in found}) > 1:
        raise InputError("the counts are of different bins")
    if sum(map(np.sum, found)) > _MOST_COUNTED:
        raise InputError(f"more than {_MOST_COUNTED:,} values cannot be compared")
    return found


def stability_index(p: Floats, observed: Floats, occupied: NDArray[np.bool_]) -> Floats:
    """PSI of shares and counts of shape (..., bins)."""
    q = smoothed_shares(observed, occupied)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(occupied, (q - p) * np.log(q / p), 0.0)
    return np.asarray(parts.sum(axis=-1))


def smoothed_shares(counts: Floats, occupied: NDArray[np.bool_]) -> Floats:
    """Shares of shape (..., bins), half a question added to every occupied bin."""
    added = np.where(occupied, counts + 0.5, 0.0)
    return np.asarray(added / added.sum(axis=-1, keepdims=True))


def largest_gap(expected: Floats, observed: Floats) -> Floats:
    """Largest difference of the two cumulative shares at a bin edge, for (..., bins) counts."""
    first = np.cumsum(expected, axis=-1) / expected.sum(axis=-1, keepdims=True)
    second = np.cumsum(observed, axis=-1) / observed.sum(axis=-1, keepdims=True)
    return np.asarray(np.abs(first - second).max(axis=-1))


_EDGES = tuple(i / 20 for i in range(21))


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


def calibration_histograms(policy: Policy, questions: Iterable[Any]) -> dict[str, Histogram]:
    """What live traffic is compared with: the histograms to keep in `policy`.

    Args:
        policy: thresholds and allowed routes as they will serve.
        questions: the calibration questions, one entry each, as they would arrive live; with
            `relevance`, `confidence` and `conflict` as a `CalibrationRecord` has them.

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
        "relevance": [r for one in measured if (r := finite_or_none(one.relevance)) is not None],
        "confidence": [c for one in measured if (c := finite_or_none(one.confidence)) is not None],
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
) -> tuple[Distance, Distance, float | None]:
    """Compare live counts with a calibration histogram of the same bins: PSI, KS and no share.

    The population stability index (PSI) is the sum over bins of (q - p) ln(q / p), p and q being
    the shares of calibration and live values. So that no bin is infinitely surprising, half a
    question is added to each bin on each side; bins that are empty on both sides are left out.
    Finite samples of one distribution have a PSI above 0: about (B - 1)(1/n + 1/m) for B well
    filled bins, n calibration questions and m live values. The rules of thumb ".1 is a change,
    .25 a large one" are for `excess`.

    KS is the largest gap between the cumulative shares (Kolmogorov–Smirnov). It is measured at the
    bin edges, the only places where a histogram tells the shares, so it is a lower bound of the
    distance of the values themselves.

    p-values and means without drift come from random splits of all values into sides of the same
    sizes, which is exact however thin the bins are.

    Args:
        expected: of the calibration questions, at least one.
        observed: live values per bin, shape (bins,); at least one.
        draws: random splits.
        seed: of these.

    Example:
        >>> histogram = Histogram(edges=(0.0, 0.5, 1.0), counts=(60, 40))
        >>> psi, ks, _ = compare(histogram, [40, 60])
        >>> round(psi.value, 3), round(psi.without_drift, 2), round(ks.value, 3)
        (0.159, 0.02, 0.2)
    """
    live, calibration = _checked_counts(observed, expected)
    pooled = (calibration + live).astype(np.int64)
    rng = np.random.default_rng(seed)
    drawn = rng.multivariate_hypergeometric(
        pooled, int(live.sum()), size=draws, method="marginals"
    ).astype(np.float64)
    sides, occupied = ((calibration, live), (pooled - drawn, drawn)), pooled > 0
    psi = [stability_index(smoothed_shares(p, occupied), q, occupied) for p, q in sides]
    ks = [largest_gap(*side) for side in sides]
    return Distance.of(*psi), Distance.of(*ks), None


_DRAWS = 499
_HALVINGS = 40


def compare_with_mixture(
    first: Histogram,
    second: Histogram,
    observed: Sequence[int],
    *,
    draws: int = _DRAWS,
    seed: int = 0,
) -> tuple[Distance, Distance, float]:
    """Fit the share of `first` by maximum likelihood, then compare with the mixture.

    Leave-one-out calibration measures each question twice, with its source and without.
    Live questions are some of both, in an unknown proportion: what can be
    asked is whether any mixture explains them. A change of the proportion alone
    is then no drift; it shows as another `share`, and in the abstention rate.

    p-values and means without drift come from a parametric bootstrap that refits each time
    (approximate, unlike those of a single histogram; the two histograms count as independent).

    Args:
        first: for example of questions with their source in place.
        second: of the same bins; both hold a question at least.
        observed: live values per bin, shape (bins,); at least one.
        draws: of the bootstrap.
        seed: of these.
    """
    live, a, b = _checked_counts(observed, first, second)
    occupied = (a + b + live) > 0
    fitted, psi, ks = _fitted(a, b, live, occupied)
    share, rng = float(fitted), np.random.default_rng(seed)
    p_a, p_b = smoothed_shares(a, occupied), smoothed_shares(b, occupied)
    mixed = share * p_a + (1 - share) * p_b
    sides = [
        rng.multinomial(int(side.sum()), p / p.sum(), size=draws).astype(np.float64)
        for side, p in zip((a, b, live), (p_a, p_b, mixed), strict=True)
    ]
    _, drawn_psi, drawn_ks = _fitted(sides[0], sides[1], sides[2], occupied)
    return Distance.of(psi, drawn_psi), Distance.of(ks, drawn_ks), share


def _fitted(
    a: Floats, b: Floats, live: Floats, occupied: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """Share, PSI and KS for counts of shape (..., bins)."""
    p_a, p_b = smoothed_shares(a, occupied), smoothed_shares(b, occupied)
    low, high = np.zeros(live.shape[:-1]), np.ones(live.shape[:-1])
    for _ in range(_HALVINGS):
        # The likelihood is concave in the share.
        middle = (low + high) / 2
        mixed = middle[..., None] * p_a + (1 - middle[..., None]) * p_b
        slope = np.sum(live * (p_a - p_b) / np.where(occupied, mixed, 1.0), axis=-1)
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    share = np.asarray((low + high) / 2)
    weight = share[..., None]
    mixed = weight * p_a + (1 - weight) * p_b
    psi = stability_index(mixed, live, occupied)
    of_a, of_b = (side / side.sum(axis=-1, keepdims=True) for side in (a, b))
    return share, psi, largest_gap(weight * of_a + (1 - weight) * of_b, live)
