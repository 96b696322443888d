"""The nearest rows, block by block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from knowgate.offline_eval.data.questions import KnowledgeBase
from knowgate.offline_eval.systems.retrieval import PassageIndex, top_k

Floats32 = NDArray[np.float32]


def _one_by_one(query: Floats32, matrix: Floats32, k: int, gone: int) -> list[int]:
    products = np.asarray(matrix.astype(np.float64) @ query.astype(np.float64), dtype=np.float32)
    order = [int(row) for row in np.argsort(-products, kind="stable") if row != gone]
    return order[:k]


def _vectors(n: int, seed: int, dimensions: int = 16) -> Floats32:
    rows = np.random.default_rng(seed).normal(size=(n, dimensions)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


@settings(max_examples=25, deadline=None)
@given(
    arrays(np.float32, st.tuples(st.integers(1, 30), st.just(3)), elements=st.integers(-2, 2)),
    arrays(np.float32, st.tuples(st.integers(0, 5), st.just(3)), elements=st.integers(-2, 2)),
    st.integers(1, 8),
    st.data(),
)
def test_blocks_give_what_going_through_all_rows_gives(
    matrix: Floats32, queries: Floats32, k: int, data: st.DataObject
) -> None:
    row = st.integers(-1, len(matrix) - 1)
    gone = data.draw(st.lists(row, min_size=len(queries), max_size=len(queries)))

    rows, products = top_k(queries, matrix, k, np.array(gone, dtype=np.int64))

    for query, found, values, without in zip(queries, rows, products, gone, strict=True):
        expected = _one_by_one(query, matrix, k, without)
        assert [one for one in found.tolist() if one >= 0] == expected
        assert values[: len(expected)].tolist() == [
            float(np.dot(query, matrix[one])) for one in expected
        ]


@pytest.mark.parametrize("k", [1, 5, 40])
def test_several_blocks_change_nothing(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowgate.offline_eval.systems.retrieval._QUERIES", 7)
    matrix = _vectors(300, seed=0)

    rows, _ = top_k(matrix, matrix, k, np.arange(300))

    for at in range(300):
        assert rows[at].tolist() == _one_by_one(matrix[at], matrix, k, at)


class _Vectors:
    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.asarray([self._vectors[text] for text in texts], dtype=np.float32)


def test_ties_keep_the_order_of_the_passages() -> None:
    index = PassageIndex(
        KnowledgeBase(dict.fromkeys("dbca", "same"), {}), _Vectors({"same": [1.0]})
    )
    query = np.ones(1, dtype=np.float32)

    assert index.nearest(query, 3) == ["d", "b", "c"]
    assert index.nearest(query, 3, without="b") == ["d", "c", "a"]
    assert index.nearest(query, 9, without="d") == ["b", "c", "a"]


def test_the_index_ranks_by_cosine() -> None:
    vectors = {"near": [0.8, 0.6], "far": [-1.0, 0.0], "right": [1.0, 0.0]}
    base = KnowledgeBase({name: name for name in ("far", "near", "right")}, {})

    found = PassageIndex(base, _Vectors(vectors)).nearest(np.asarray([1.0, 0.0], np.float32), 3)

    assert found == ["right", "near", "far"]


def test_a_query_with_too_few_rows_ends_with_none() -> None:
    matrix = np.eye(2, dtype=np.float32)

    rows, products = top_k(matrix, matrix, 5, np.array([0, -1]))

    assert rows.tolist() == [[1, -1], [1, 0]]
    assert products.tolist() == [[0.0, -np.inf], [1.0, 0.0]]
    assert top_k(matrix, matrix[:0], 3)[0].shape == (2, 0)
    assert top_k(matrix[:0], matrix, 3)[0].shape == (0, 2)
