"""Farthest-first selection against going through all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from knowgate.offline_eval.data.diversity.filter import farthest_first

Floats = NDArray[np.float64]


def _as_described(vectors: Floats, least: float, digits: int | None = None) -> list[int]:
    """The filter as it is described: for each item left, its distance to every picked one."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    picked, left = [0], list(range(1, len(unit)))
    while left:
        best, farthest = -1, -1.0
        for item in left:
            distance = min(1.0 - float(np.dot(unit[item], unit[one])) for one in picked)
            if digits is not None:
                distance = round(distance, digits)
            if distance > farthest:
                best, farthest = item, distance
        if farthest < least:
            break
        picked.append(best)
        left.remove(best)
    return picked


def test_always_the_farthest_is_picked_next() -> None:
    angles = np.radians([0.0, 10.0, 170.0, 90.0, 100.0])
    vectors = np.column_stack([np.cos(angles), np.sin(angles)])

    # 170° is the farthest from 0° (1.985), then 90° (1 − cos 80° = 0.826 from 170°); 100° is
    # 0.015 from 90° and 10° is 0.015 from 0°.
    assert farthest_first(vectors).tolist() == [0, 2, 3]
    assert farthest_first(vectors, min_distance=0.9).tolist() == [0, 2]
    assert farthest_first(vectors, min_distance=0.015).tolist() == [0, 2, 3, 1, 4]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dimensions", [3, 384])
def test_the_selection_is_that_of_the_described_algorithm(seed: int, dimensions: int) -> None:
    vectors = np.random.default_rng(seed).normal(0.3, 1.0, (90, dimensions))

    for least in (0.05, 0.3, 0.8):
        expected = _as_described(vectors, least)
        assert farthest_first(vectors, min_distance=least).tolist() == expected


@settings(max_examples=20, deadline=None)
@given(
    arrays(
        np.int64,
        st.tuples(st.integers(1, 40), st.integers(1, 4)),
        elements=st.integers(-2, 2),
    ),
    st.sampled_from([0.2, 0.3, 0.9]),
)
def test_of_equally_distant_items_the_first_is_picked(grid: NDArray[np.int64], at: float) -> None:
    vectors = grid[np.any(grid != 0, axis=1)].astype(np.float64)
    if len(vectors) == 0:
        return

    # Distances on a grid tie again and again; rounding must not decide.
    assert farthest_first(vectors, min_distance=at).tolist() == _as_described(
        vectors, at, digits=10
    )
