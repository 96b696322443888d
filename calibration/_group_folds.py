"""Folds for cross-validation that never part a group."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from ._case_arrays import Floats

Indices = NDArray[np.int64]


def deal_to_folds(unit: Indices, outcomes: Floats, folds: int, seed: int) -> Indices:
    """The fold of each case: groups whole, folds of like size, true outcomes spread out.

    Groups are shuffled by `seed`, those with most true outcomes first (then the largest),
    and each is dealt to the fold that has fewest cases so far.

    Args:
        unit: group of each case, 0 … g - 1.
        outcomes: 0.0 or 1.0 per case.
        folds: at most g.
        seed: of the shuffle.

    Example:
        >>> unit = np.array([0, 0, 1, 1, 2, 3])
        >>> deal_to_folds(unit, np.array([1.0, 0, 1, 0, 0, 0]), 2, 0).tolist()
        [0, 0, 1, 1, 0, 1]
    """
    sizes = np.bincount(unit)
    trues = np.bincount(unit, weights=outcomes)
    shuffled = np.random.default_rng(seed).permutation(len(sizes))
    order = shuffled[np.lexsort((-sizes[shuffled], -trues[shuffled]))]
    filled = [(0, fold) for fold in range(folds)]
    dealt = np.zeros(len(sizes), dtype=np.int64)
    for group in order.tolist():
        cases, fold = heapq.heappop(filled)
        dealt[group] = fold
        heapq.heappush(filled, (cases + int(sizes[group]), fold))
    found: Indices = dealt[unit]
    return found


def clustered_standard_error(values: Floats, unit: Indices) -> float:
    """Standard error of the mean of `values`, cases of one group being one draw.

    Args:
        values: one per case.
        unit: group of each case, 0 … g - 1, with g at least 2.

    Example:
        >>> clustered_standard_error(np.array([0.0, 2.0]), np.array([0, 1]))
        1.0
    """
    sizes = np.bincount(unit)
    off = np.bincount(unit, weights=values) - values.mean() * sizes
    count = len(sizes)
    return float(np.sqrt(count / (count - 1) * np.sum(off**2)) / len(values))
