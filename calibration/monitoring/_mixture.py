"""Live traffic as a mixture: some questions have their source in the knowledge base, some not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...guard import Histogram, InputError
from .._intervals import UNDEFINED, Interval
from ._distance import (
    Counts,
    Distance,
    checked_counts,
    largest_gap,
    p_value,
    smoothed_shares,
)
from ._kolmogorov import band
from ._stability import index_interval

_DRAWS = 499
_HALVINGS = 40


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
    Live questions are some of both, in a proportion that nobody knows: what can be
    asked is whether any mixture explains them. A change of the proportion alone
    is then no drift; it shows as another `share`, and in the abstention rate.

    p-values, means without drift and the interval of the share come from a parametric
    bootstrap that fits anew each time (approximate, unlike those of a single histogram;
    the two histograms count as independent).

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
        return MixtureComparison(UNDEFINED, nothing, nothing)
    occupied = (a + b + live) > 0
    share, psi, ks = _fitted(a, b, live, occupied)
    drawn = _without_drift(a, b, sizes, float(share), occupied, draws, seed)
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn[0], (tail, 1 - tail))
    # Basic bootstrap: the draws lie about the fit as the fit lies about the truth.
    low, high = (float(np.clip(2 * share - end, 0.0, 1.0)) for end in (high, low))
    found = float(share)
    return MixtureComparison(
        Interval(found, min(low, found), max(high, found), sizes[2]),
        _psi(float(psi), drawn[1], (a, b, live), occupied, found, confidence),
        _ks(float(ks), drawn[2], sizes, found, confidence),
    )


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
