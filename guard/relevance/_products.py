"""Token vectors at unit length, and the best inner product of each with any other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# OpenBLAS gives larger products to a crew of spinning threads: on a busy machine a product
# of 30 µs then takes 20 ms. Cut below its threshold of 262,144 multiplications it stays on
# the caller's thread. The cut depends on the pair alone, so results do as well.
_MOST_MULTIPLICATIONS = 200_000


def best_products(asked: NDArray[np.float32], told: NDArray[np.float32]) -> NDArray[np.float32]:
    """For each row of `asked` the largest inner product with a row of `told`.

    Args:
        asked: shape (n, d).
        told: shape (m, d), m at least 1.

    Returns:
        Shape (n,), float32.
    """
    step = max(1, _MOST_MULTIPLICATIONS // max(1, asked.size))
    best = np.full(len(asked), -np.inf, dtype=np.float32)
    for start in range(0, len(told), step):
        np.maximum(best, (asked @ told[start : start + step].T).max(axis=1), out=best)
    return best


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows scaled to length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.float32(1e-12)), dtype=np.float32)
