"""Farthest-first selection against going through all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from knowgate.guard import InputError
from knowgate.offline_eval.data.diversity._farthest_first import farthest_first

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


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dimensions", [3, 12, 384])
def test_the_selection_is_that_of_the_described_algorithm(seed: int, dimensions: int) -> None:
    vectors = np.random.default_rng(seed).normal(0.3, 1.0, (90, dimensions))

    for least in (0.05, 0.3, 0.8):
        expected = _as_described(vectors, least)
        assert farthest_first(vectors, min_distance=least).tolist() == expected


def test_many_rounds_give_what_one_pick_at_a_time_gives() -> None:
    vectors = np.random.default_rng(0).normal(0.0, 1.0, (3000, 10))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    picked, distances = [0], 1.0 - unit @ unit[0]
    while True:
        distances[picked] = -1.0
        best = int(np.argmax(distances))
        if distances[best] < 0.1:
            break
        picked.append(best)
        distances = np.minimum(distances, 1.0 - unit @ unit[best])

    found = farthest_first(vectors, min_distance=0.1)

    assert len(picked) > 1000
    assert found.tolist() == picked


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_of_many_equally_far_items_the_first_is_picked_in_every_round(seed: int) -> None:
    vectors = np.random.default_rng(seed).integers(-1, 2, (400, 6)).astype(np.float64)
    vectors[~vectors.any(axis=1)] = 1.0
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    far = np.round(1.0 - unit @ unit.T, 10)
    picked, distances = [0], far[0].copy()
    while (best := int(np.argmax(distances))) not in picked and distances[best] >= 0.05:
        picked.append(best)
        distances = np.minimum(distances, far[best])

    assert len(picked) > 200
    assert farthest_first(vectors, min_distance=0.05).tolist() == picked


@settings(max_examples=30, deadline=None)
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


def test_copies_are_picked_once() -> None:
    vectors = np.repeat(np.random.default_rng(1).normal(size=(50, 20)), 4, axis=0)

    found = farthest_first(vectors)

    assert sorted(found.tolist()) == list(range(0, 200, 4))


def test_no_items_give_no_selection_and_one_gives_itself() -> None:
    assert farthest_first(np.zeros((0, 5))).tolist() == []
    assert farthest_first([[3.0, 4.0]]).tolist() == [0]


@pytest.mark.parametrize(
    ("vectors", "least", "message"),
    [
        ([[1.0, 0.0], [0.0, 0.0]], 0.3, r"vectors\[1\]: is not finite, or has no direction"),
        ([[1.0, np.nan]], 0.3, r"vectors\[0\]"),
        ([1.0, 2.0], 0.3, "must have the shape"),
        ([[1.0]], 0.0, "above 0 and at most 2"),
        ([[1.0]], 2.5, "above 0 and at most 2"),
    ],
)
def test_what_has_no_distance_is_refused(vectors: object, least: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        farthest_first(vectors, min_distance=least)  # type: ignore[arg-type]


def test_progress_ends_with_all_items_decided() -> None:
    told: list[tuple[int, int]] = []

    farthest_first(
        np.random.default_rng(2).normal(size=(300, 8)),
        on_progress=lambda done, total: told.append((done, total)),
    )

    assert told[-1] == (300, 300)
    assert told == sorted(told)
