"""Agreement between people who labelled the same items, beyond what chance would give.

All three are 1 − observed disagreement / disagreement expected by chance: 1 where all
agree, 0 where they agree as often as chance, below 0 where less. They differ in what they
do with labels that are missing:

    Cohen's kappa           two annotators; the items that both labelled
    Fleiss' kappa           any number of annotators, but equally many labels per item
    Krippendorff's alpha    any number, labels may be missing; items with at least two count
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...calibration import Interval
from ...calibration.statistics import Floats, numbered

# Draws for an interval.
_RESAMPLES = 1000

# Per item the labels that it got; None stands for one that is missing.
Ratings = Sequence[Sequence[str | None]]

_Disagreement = Callable[[Floats], tuple[Floats, Floats, Floats]]
# Sums of features, one row per draw → observed and expected disagreement and the largest
# disagreement that one pair of labels can have, one of each per draw.


def cohens_kappa(
    first: Sequence[str | None],
    second: Sequence[str | None],
    *,
    groups: Sequence[str] | None = None,
    weights: Floats | None = None,
) -> Interval:
    """Cohen's kappa of two annotators over the items that both labelled.

    Args:
        first: labels of one annotator, None where there is none.
        second: of the other, for the same items in the same order.
        groups: of each item, such as the question that several replies answer; items of
            one group are drawn together. Without it every item is drawn by itself.
        weights: of each item, above 0; None where all weigh the same.

    Returns:
        Kappa with its percentile bootstrap interval of 95 %; `n` counts items that both
        labelled, or their groups. Undefined where there is none, or where both use one and
        the same label throughout: agreement by chance is then certain. Nominal 95 %
        intervals covered the truth in 90 % of 400 simulated samples of 20 items, and in 91
        to 95 % of those of 50 and 100.

    Raises:
        ValueError: lengths differ.

    Source: Cohen 1960, A coefficient of agreement for nominal scales.

    Example:
        >>> cohens_kappa(["yes", "yes", "no", "no"], ["yes", "no", "no", "no"]).value
        0.5
    """
    owners, each = _owners(groups, len(first)), np.ones(len(first)) if weights is None else weights
    both = [
        (a, b, owner, weight)
        for a, b, owner, weight in zip(first, second, owners, each, strict=True)
        if a is not None and b is not None
    ]
    names = _names([(a, b) for a, b, *_ in both])
    cells = np.zeros((len(both), len(names), len(names)))
    for item, (a, b, _, weight) in enumerate(both):
        cells[item, names[a], names[b]] = weight

    def disagreement(sums: Floats) -> tuple[Floats, Floats, Floats]:
        together = sums.reshape(-1, len(names), len(names))
        shares = together / together.sum(axis=(1, 2), keepdims=True)
        observed = 1.0 - np.trace(shares, axis1=1, axis2=2)
        expected = 1.0 - (shares.sum(axis=1) * shares.sum(axis=2)).sum(axis=1)
        return observed, expected, np.ones(len(sums))

    features = _by_group(cells.reshape(len(both), len(names) ** 2), [one[2] for one in both])
    return _with_interval(features, disagreement)


def fleiss_kappa(ratings: Ratings, *, groups: Sequence[str] | None = None) -> Interval:
    """Fleiss' kappa of any number of annotators with equally many labels per item.

    Args:
        ratings: per item its labels, in any order, equally many of each.
        groups: as in `cohens_kappa`.

    Returns:
        Kappa with its bootstrap interval; `n` counts items, or their groups.
        Undefined without items, with one label per item, or with one and the same label
        throughout.

    Source: Fleiss 1971, Measuring nominal scale agreement among many raters.

    Example:
        >>> round(fleiss_kappa([["a", "a", "a"], ["a", "b", "b"], ["b", "b", "b"]]).value, 3)
        0.55
    """
    each = float(len(ratings[0])) if ratings else 0.0
    if each < 2:
        return Interval()
    counts = _counts(ratings, _names(ratings))
    agreeing = (counts * (counts - 1)).sum(axis=1, keepdims=True) / (each * (each - 1))

    def disagreement(sums: Floats) -> tuple[Floats, Floats, Floats]:
        items = sums[:, 1:].sum(axis=1) / each
        shares = sums[:, 1:] / (items * each)[:, None]
        observed = 1.0 - sums[:, 0] / items
        return observed, 1.0 - (shares**2).sum(axis=1), np.ones(len(sums))

    features = _by_group(np.hstack([agreeing, counts]), _owners(groups, len(counts)))
    return _with_interval(features, disagreement)


def krippendorff_alpha(
    ratings: Ratings, *, order: Sequence[str] | None = None, groups: Sequence[str] | None = None
) -> Interval:
    """Krippendorff's alpha, nominal or ordinal; labels may be missing.

    The interval resamples items. Krippendorff's own bootstrap resamples disagreements
    and takes them for independent, which those of one item are not.

    Args:
        ratings: per item its labels, in any order; None is no label.
        order: all labels from one end of the scale to the other, for ordinal alpha;
            nominal without it.
        groups: as in `cohens_kappa`.

    Returns:
        Alpha with its bootstrap interval; `n` counts items with two labels or more, which
        are the only ones that say something, or their groups. Undefined where there is
        none, or one and the same label throughout.

    Source: Krippendorff 2011, Computing Krippendorff's alpha-reliability.

    Example:
        >>> found = krippendorff_alpha([["a", "a", None], ["b", "b", "b"], ["a", "b", None]])
        >>> round(found.value, 3), found.n
        (0.5, 3)
    """
    everything = _counts(ratings, names := _names(ratings, order))
    useful = np.flatnonzero(everything.sum(axis=1) >= 2)
    counts, kinds = everything[useful], len(names)
    owners = _owners(groups, len(ratings))
    pairs = counts[:, :, None] * counts[:, None, :]
    diagonal = np.arange(kinds)
    pairs[:, diagonal, diagonal] -= counts
    pairs /= (counts.sum(axis=1) - 1)[:, None, None]

    def disagreement(sums: Floats) -> tuple[Floats, Floats, Floats]:
        together = sums.reshape(-1, kinds, kinds)
        values = together.sum(axis=2)
        total = values.sum(axis=1)
        apart = _distances(values, ordinal=order is not None)
        observed = (together * apart).sum(axis=(1, 2)) / total
        chance = (values[:, :, None] * values[:, None, :] * apart).sum(axis=(1, 2))
        return observed, chance / (total * (total - 1)), apart.max(axis=(1, 2))

    features = _by_group(pairs.reshape(len(counts), kinds**2), [owners[item] for item in useful])
    return _with_interval(features, disagreement)


def _distances(values: Floats, *, ordinal: bool) -> Floats:
    """Squared differences between labels, one matrix per row of label counts."""
    kinds = values.shape[1]
    if not ordinal:
        return np.broadcast_to(1.0 - np.eye(kinds), (len(values), kinds, kinds))
    # Ranks at the middle of each label's values: as far apart as values lie between.
    middle = np.cumsum(values, axis=1) - values / 2
    difference: Floats = (middle[:, :, None] - middle[:, None, :]) ** 2
    return difference


def _owners(groups: Sequence[str] | None, items: int) -> list[str]:
    """The group of each item; its own where there are none."""
    return list(map(str, range(items)) if groups is None else groups)


def _by_group(features: Floats, owners: Sequence[str]) -> Floats:
    """Sums of the features of each group's items."""
    rows = numbered(owners)
    sums = np.zeros((len(set(owners)), features.shape[1]))
    np.add.at(sums, rows, features)
    return sums


def _with_interval(features: Floats, disagreement: _Disagreement) -> Interval:
    """1 − observed / expected of the sum of all features, one row per group."""
    n = len(features)
    if n == 0:
        return Interval()
    observed, expected, largest = disagreement(features.sum(axis=0, keepdims=True))
    if not _positive(expected)[0]:
        return Interval(None, None, None, n)
    value = 1.0 - float(observed[0] / expected[0])
    # Rows that are alike are drawn together: as many numbers as there are kinds.
    kinds, times = np.unique(features, axis=0, return_counts=True)
    rng = np.random.default_rng(0)
    drawn_sums = rng.multinomial(n, times / n, size=_RESAMPLES) @ kinds
    above, below, _ = disagreement(drawn_sums)
    defined = _positive(below)
    drawn = 1.0 - above[defined] / below[defined]
    low, high = np.quantile(drawn, [0.025, 0.975]) if len(drawn) else (value, value)
    # Equal up to rounding: the draws say nothing about chance.
    if high - low > 1e-9:
        return Interval(value, min(value, float(low)), max(value, float(high)), n)
    # Full agreement on ten items is no proof of full agreement: the interval is that of a share of
    # n items that agree, at the expected disagreement that was found.
    most, chance = float(largest[0]), float(expected[0])
    agreeing = min(1.0, max(0.0, 1.0 - float(observed[0]) / most)) * n
    fewest = Interval.wilson(math.floor(agreeing + 1e-9), n).low or 0.0
    all_but = Interval.wilson(math.ceil(agreeing - 1e-9), n).high or 0.0
    low, high = (1.0 - (1.0 - share) * most / chance for share in (fewest, all_but))
    return Interval(value, min(value, max(-1.0, low)), max(value, min(1.0, high)), n)


def _positive(expected: Floats) -> NDArray[np.bool_]:
    # Sums of shares miss zero by rounding.
    positive: NDArray[np.bool_] = np.nan_to_num(expected) > 1e-12
    return positive


def _counts(ratings: Ratings, names: Mapping[str, int]) -> Floats:
    """How often each item got each label, by the labels' columns."""
    counts = np.zeros((len(ratings), len(names)))
    for item, labels in enumerate(ratings):
        for label in labels:
            if label is not None:
                counts[item, names[label]] += 1.0
    return counts


def _names(ratings: Ratings, order: Sequence[str] | None = None) -> dict[str, int]:
    """The column of each label, in an order or by name."""
    found = {label for labels in ratings for label in labels if label is not None}
    return {name: column for column, name in enumerate(order or sorted(found))}
