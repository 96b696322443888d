"""Questions by topic, and how many new ones each topic gets."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...guard import InputError

_LARGE = 10_000


def clusters_of(vectors: NDArray[np.float32], number: int | None, *, seed: int) -> list[list[int]]:
    """Row numbers by cluster (k-means), clusters in the order of their first rows.

    Args:
        vectors: of shape (items, dimensions), at least one item.
        number: of clusters, at least 1; by default the square root of half the items. There
            may be fewer: no more than different items.
        seed: of the first centres.

    Raises:
        InputError: `number` is below 1.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    if number is not None and number < 1:
        raise InputError(f"must be at least 1, not {number}", where="clusters")
    wanted = max(1, round(float(np.sqrt(len(vectors) / 2)))) if number is None else number
    kind = MiniBatchKMeans if len(vectors) > _LARGE else KMeans
    with warnings.catch_warnings():
        # Fewer different items than clusters.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = kind(min(wanted, len(vectors)), random_state=seed, n_init=3).fit_predict(vectors)
    groups: dict[int, list[int]] = {}
    for row, label in enumerate(labels.tolist()):
        groups.setdefault(label, []).append(row)
    return list(groups.values())


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """`total` dealt out by size: whole numbers, the largest remainders rounded up.

    Example:
        >>> shares([6, 3, 1], 4)
        [2, 1, 1]
    """
    exact = [total * size / sum(sizes) for size in sizes]
    dealt = [int(one) for one in exact]
    # Of equal remainders the smaller group, which has less, then the first.
    order = sorted(range(len(sizes)), key=lambda at: (dealt[at] - exact[at], sizes[at], at))
    for at in order[: total - sum(dealt)]:
        dealt[at] += 1
    return dealt
