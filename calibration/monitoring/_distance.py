"""Two histograms over the same bins: how far apart, and how far apart chance alone puts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from ...guard import Histogram, InputError

Counts = NDArray[np.float64]

DRAWS = 999
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

    def to_dict(self) -> dict[str, float | int | None]:
        """The fields, as JSON holds them."""
        return asdict(self)


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
            mend="count the live values in the bins of the calibration histogram",
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


def splits_without_drift(
    expected: Counts, observed: Counts, draws: int, seed: int
) -> tuple[Counts, Counts]:
    """Random splits of all questions into two sides of the same sizes: a permutation test.

    Returns:
        `draws` pairs of counts, each of shape (draws, bins).
    """
    pooled = (expected + observed).astype(np.int64)
    if pooled.sum() > _MOST_COUNTED:
        raise InputError(f"more than {_MOST_COUNTED:,} values cannot be compared")
    rng = np.random.default_rng(seed)
    live = rng.multivariate_hypergeometric(
        pooled, int(observed.sum()), size=draws, method="marginals"
    ).astype(np.float64)
    return pooled - live, live


def p_value(found: float, draws: Counts) -> float:
    """Share of `draws` at least as large as `found`, which counts as one of them."""
    # Equal splits must compare as equal, whatever the order of summation did to the last digit.
    return float((1 + np.sum(draws >= found * (1 - 1e-9))) / (1 + len(draws)))
