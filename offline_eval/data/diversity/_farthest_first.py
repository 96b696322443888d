"""Greedy farthest-first selection."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ....guard.errors import InputError
from ...run.calls import OnStep

# Distances are whole numbers of these: what only rounding tells apart then ties.
_STEPS = float(1 << 40)


def farthest_first(
    vectors: ArrayLike, *, min_distance: float = 0.3, on_progress: OnStep | None = None
) -> NDArray[np.int64]:
    """Select diverse items; returns their indices in the order in which they are picked.

    The first item is picked first, then always the one whose cosine distance to the nearest
    picked item is the largest, until none is at least `min_distance` away. Of equally distant
    ones (to 1e-12) the first is picked. O(N·K·d) operations for K picks from N items, O(N·d)
    memory.

    Args:
        vectors: of shape (items, dimensions), finite, none of length 0; need not have
            unit length.
        min_distance: above 0 and at most 2.
        on_progress: called with (items decided, items in all).

    Returns:
        Of shape (picked,); empty for no items.

    Raises:
        InputError: the vectors or the distance cannot be used.

    Example:
        >>> farthest_first([[1, 0], [1, 0.1], [0, 1], [-1, 0]])
        array([0, 3, 2])

    Source: KnowOrNot's semantic filter; Gonzalez 1985 for farthest-first.
    """
    if not 0.0 < min_distance <= 2.0:
        raise InputError(
            f"must be above 0 and at most 2, not {min_distance:g}", where="min_distance"
        )
    rows = _unit_rows(vectors)
    total, least = len(rows), float(np.rint(min_distance * _STEPS))
    picked: list[int] = []
    names = np.arange(total)
    distances = np.full(total, 3.0 * _STEPS)
    while len(names):
        best = int(distances.argmax())  # the first of equals
        picked.append(int(names[best]))
        np.minimum(distances, np.rint((1.0 - rows @ rows[best]) * _STEPS), out=distances)
        distances[best] = -1.0
        # What is too near to a picked item stays so.
        far = distances >= least
        left = int(far.sum())
        if on_progress is not None:
            on_progress(total - left, total)
        if not left:
            break
        if 10 * left < 9 * len(names):
            names, rows, distances = names[far], rows[far], distances[far]
    return np.asarray(picked, dtype=np.int64)


def _unit_rows(vectors: ArrayLike) -> NDArray[np.float64]:
    rows = np.array(vectors, dtype=np.float64)
    if rows.size == 0:
        return np.zeros((0, 1))
    if rows.ndim != 2:
        raise InputError(
            f"must have the shape (items, dimensions), not {rows.shape}", where="vectors"
        )
    lengths = np.linalg.norm(rows, axis=1)
    wrong = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0.0))
    if len(wrong):
        raise InputError("is not finite, or has no direction", where=f"vectors[{wrong[0]}]")
    rows /= lengths[:, None]
    return rows
