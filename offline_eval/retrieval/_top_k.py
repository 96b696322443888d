"""The nearest rows of a matrix for many queries, without ever holding all cosines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...guard import InputError

Floats32 = NDArray[np.float32]
Integers = NDArray[np.int64]
Progress = Callable[[int, int], None]

# A block of dot products stays within a core's own cache.
_QUERIES, _ROWS = 256, 1024
# Candidates looked at together; each takes 20 bytes.
_PENDING = 1 << 18
_FLOAT32_STEP = float(np.finfo(np.float32).eps)


def top_k_in_blocks(
    queries: Floats32,
    matrix: Floats32,
    k: int,
    exclude: Sequence[int | None] | Integers | None = None,
    *,
    on_progress: Progress | None = None,
) -> tuple[Integers, Floats32]:
    """The `k` rows of `matrix` with the largest dot products, for each query.

    Each dot product that decides is computed by itself, so that the result is that of
    going through all rows one by one to the last bit, however the blocks fall: rows in
    falling order, equal ones in the order of the matrix.

    Args:
        queries: of shape (queries, dimensions), finite.
        matrix: of shape (rows, dimensions), finite.
        k: rows wanted, at least 1.
        exclude: per query a row that it must not find; None or a negative number for none.
        on_progress: called with (queries done, queries in all).

    Returns:
        Row numbers of shape (queries, min(k, rows)), and their dot products. A query that
        must not find one of so few rows ends with -1 and minus infinity.

    Raises:
        InputError: `k` is below 1, a number is not finite, or the shapes do not go together.
    """
    gone = _checked(queries, matrix, k, exclude)
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    matrix = np.ascontiguousarray(matrix, dtype=np.float32)
    width = min(k, len(matrix))
    rows = np.full((len(queries), width), -1, dtype=np.int64)
    values = np.full((len(queries), width), -np.inf, dtype=np.float32)
    if width == 0:
        return rows, values
    longest = float(np.sqrt(np.einsum("ij,ij->i", matrix, matrix).max()))
    for name, rows_given in (("matrix", matrix), ("queries", queries)):
        if not np.isfinite(rows_given).all():
            raise InputError("there is a number that is not finite", where=name)
    for start in range(0, len(queries), _QUERIES):
        part = slice(start, start + _QUERIES)
        found = _candidates(queries[part], matrix, width, gone[part], longest)
        for at, candidates in enumerate(found, start=start):
            _settle(queries[at], matrix, candidates, rows[at], values[at])
        if on_progress is not None:
            on_progress(min(start + _QUERIES, len(queries)), len(queries))
    return rows, values


def _checked(
    queries: Floats32, matrix: Floats32, k: int, exclude: Sequence[int | None] | Integers | None
) -> Integers:
    """The excluded row of each query, -1 for none."""
    if k < 1:
        raise InputError(f"must be at least 1, not {k}", where="k")
    if queries.ndim != 2 or matrix.ndim != 2 or queries.shape[1] != matrix.shape[1]:
        raise InputError(
            f"queries of shape {queries.shape} and a matrix of shape {matrix.shape} do not "
            "go together"
        )
    if exclude is None:
        return np.full(len(queries), -1, dtype=np.int64)
    if len(exclude) != len(queries):
        raise InputError(f"{len(queries)} expected, {len(exclude)} given", where="exclude")
    gone = np.asarray([-1 if row is None else row for row in exclude], dtype=np.int64)
    if len(gone) and gone.max() >= len(matrix):
        raise InputError(f"there is no row {gone.max()}", where="exclude")
    return gone


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Rows that may be among the best of a query, one entry per query and row."""

    query: Integers
    row: Integers
    product: Floats32

    def __len__(self) -> int:
        return len(self.row)


def _candidates(
    queries: Floats32, matrix: Floats32, k: int, gone: Integers, longest: float
) -> list[Integers]:
    """For each query all rows that may be among its `k` best, whatever the rounding."""
    lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries))
    # Twice as much as two ways of summing one dot product can be apart.
    slack = (2 * matrix.shape[1] * _FLOAT32_STEP * longest) * lengths
    floor = np.full(len(queries), -np.inf, dtype=np.float32)
    pending: list[_Candidates] = []
    next_merge = 0
    for start in range(0, len(matrix), _ROWS):
        products = queries @ matrix[start : start + _ROWS].T
        inside = np.flatnonzero((gone >= start) & (gone < start + products.shape[1]))
        products[inside, gone[inside] - start] = -np.inf
        if start == 0 and products.shape[1] > k:
            best = np.partition(products, -k, axis=1)[:, -k]
            floor = np.nextafter((best - slack).astype(np.float32), np.float32(-np.inf))
        # Most queries find nothing in most blocks; their best product tells.
        some = np.flatnonzero(products.max(axis=1) >= floor)
        if len(some) == 0:
            continue
        at, column = np.nonzero(products[some] >= floor[some, None])
        query = some[at]
        pending.append(_Candidates(query, column + start, products[query, column]))
        # Ever rarer, since rows that raise the floor become rarer.
        if start >= next_merge or sum(map(len, pending)) > _PENDING:
            merged, floor = _merged(pending, len(queries), k, slack)
            pending, next_merge = [merged], 2 * start
    merged, _ = _merged(pending, len(queries), k, slack)
    merged_rows = merged.row[merged.product > -np.inf]
    ends = np.cumsum(np.bincount(merged.query[merged.product > -np.inf], minlength=len(queries)))
    return np.split(merged_rows, ends[:-1])


def _merged(
    parts: Sequence[_Candidates], queries: int, k: int, slack: NDArray[np.float64]
) -> tuple[_Candidates, Floats32]:
    """The candidates that are left, query by query in the order of the rows, and the floors."""
    query = np.concatenate([part.query for part in parts])
    row = np.concatenate([part.row for part in parts])
    product = np.concatenate([part.product for part in parts])
    order = np.lexsort((-product, query))
    counts = np.bincount(query, minlength=queries)
    last = np.cumsum(counts) - counts + k - 1
    enough = counts >= k
    floor = np.full(queries, -np.inf)
    floor[enough] = product[order[last[enough]]] - slack[enough]
    left = np.flatnonzero(product >= floor[query])
    left = left[np.lexsort((row[left], query[left]))]
    # Rounded down, so that float32 does not raise it.
    low = np.nextafter(floor.astype(np.float32), np.float32(-np.inf))
    return _Candidates(query[left], row[left], product[left]), low


def _settle(
    query: Floats32, matrix: Floats32, candidates: Integers, rows: Integers, values: Floats32
) -> None:
    """Put the best of the candidates, which are in the order of the rows, into `rows`."""
    products = np.asarray([np.dot(query, matrix[row]) for row in candidates], dtype=np.float32)
    order = np.argsort(-products, kind="stable")[: len(rows)]
    rows[: len(order)] = candidates[order]
    values[: len(order)] = products[order]
