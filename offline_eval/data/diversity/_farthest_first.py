"""Greedy farthest-first selection, many picks per pass over the vectors."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ....guard.errors import InputError
from ...run import OnStep

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Distances are whole numbers of these: what only rounding tells apart then ties.
_STEPS = float(1 << 40)
_FEWEST, _MOST = 64, 2048
_ROWS_AT_ONCE = 4096


def farthest_first(
    vectors: ArrayLike, *, min_distance: float = 0.3, on_progress: OnStep | None = None
) -> Integers:
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
    if len(rows) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.concatenate(_rounds(rows, float(np.rint(min_distance * _STEPS)), on_progress))


def _rounds(rows: Floats, least: float, on_progress: OnStep | None) -> list[Integers]:
    """Indices picked in each round.

    Exact, although nearly all work is done in matrix products: a round looks at the items
    whose distances may be the largest, updates them among themselves, and picks from them
    while the best one is certain to beat all others, whose distances only become smaller.
    The others are updated once per round.
    """
    total = len(rows)
    names = np.arange(1, total)
    picked = [np.zeros(1, dtype=np.int64)]
    rest = rows[1:]
    distances = _distances(rest, rows[:1])
    width = _FEWEST
    while True:
        # What is too near to a picked item stays so.
        far = distances >= least
        if not far.all():
            names, rest, distances = names[far], rest[far], distances[far]
        if on_progress is not None:
            on_progress(total - len(names), total)
        if len(names) == 0:
            return picked
        front, bound = _front(distances, width)
        chosen = _picks(rest[front], distances[front], front, bound, least)
        picked.append(names[chosen])
        new = rest[chosen]
        left = np.ones(len(names), dtype=bool)
        left[chosen] = False
        names, rest, distances = names[left], rest[left], distances[left]
        np.minimum(distances, _distances(rest, new), out=distances)
        width = _next_width(width, len(chosen), len(front))


def _next_width(width: int, chosen: int, seen: int) -> int:
    """Wider where all of the front was picked, narrower where little of it was."""
    if chosen == seen:
        return min(2 * width, _MOST)
    return max(width // 2, _FEWEST) if 4 * chosen < seen else width


def _unit_rows(vectors: ArrayLike) -> Floats:
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


def _distances(rows: Floats, picked: Floats) -> Floats:
    """Of each row to the nearest picked one, in steps."""
    nearest = np.empty(len(rows))
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        nearest[part] = (rows[part] @ picked.T).max(axis=1)
    return np.rint((1.0 - nearest) * _STEPS)


def _front(distances: Floats, width: int) -> tuple[Integers, tuple[float, int]]:
    """The `width` items that may be the farthest, and the best of all the others.

    Items are ordered by falling distance, equal ones by their place.
    """
    if len(distances) <= width:
        return np.arange(len(distances)), (-1.0, len(distances))
    cut = np.partition(distances, len(distances) - width - 1)[len(distances) - width - 1]
    above = np.flatnonzero(distances > cut)
    level = np.flatnonzero(distances == cut)
    taken = width - len(above)
    front = np.sort(np.concatenate([above, level[:taken]]))
    # One more is at the cut, or the cut would be higher.
    return front, (float(cut), int(level[taken]))


def _picks(
    rows: Floats, distances: Floats, places: Integers, bound: tuple[float, int], least: float
) -> Integers:
    """Places of the items picked from the front, before `bound` may come first."""
    steps = np.rint((1.0 - rows @ rows.T) * _STEPS)
    distances = distances.copy()
    chosen: list[int] = []
    while True:
        best = int(np.argmax(distances))  # the first of equals, and so by place
        value = distances[best]
        if value < least or (-value, int(places[best])) > (-bound[0], bound[1]):
            return places[chosen]
        chosen.append(best)
        np.minimum(distances, steps[best], out=distances)
        distances[best] = -1.0
        if len(chosen) == len(places):
            return places[chosen]
