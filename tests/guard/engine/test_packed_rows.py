"""Rows that torch computes in one long row on a CPU: the numbers of each alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowgate.guard.engine import CrossEncoderScorer, _minilm
from knowgate.guard.engine.backends import _SHORT_ROW, Backend, RowOutputs, _parts, run_rows
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.errors import DeadlineExceededError
from tools.attack.tiny_models import tiny_cross_encoder


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Backend:
    folder = tiny_cross_encoder(tmp_path_factory.mktemp("models") / "cross_encoder")
    return CrossEncoderScorer(folder, device="cpu").loaded.backend


@pytest.fixture(scope="module")
def texts() -> Backend:
    return TokenEncoder(device="cpu").loaded.backend


def difference(found: list[RowOutputs], expected: list[RowOutputs]) -> float:
    both = [pair for rows in zip(found, expected, strict=True) for pair in zip(*rows, strict=True)]
    assert all(one.shape == other.shape for one, other in both)
    return max(float(np.abs(one - other).max()) for one, other in both)


@settings(max_examples=25, deadline=None)
@given(lengths=st.lists(st.integers(2, 64), min_size=1, max_size=40), seed=st.integers(0, 9))
@example(lengths=[64] * 33, seed=0)
@example(lengths=[2, 3, 30, 31], seed=0)
def test_packed_rows_have_the_numbers_of_each_alone(
    pairs: Backend, lengths: list[int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    ids = [random.integers(0, 20, length).tolist() for length in lengths]
    types = [random.integers(0, 2, length).tolist() for length in lengths]
    alone = [run_rows(pairs, [row], [kinds])[0] for row, kinds in zip(ids, types, strict=True)]
    assert difference(run_rows(pairs, ids, types), alone) <= 1e-5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_packed_texts_have_the_vectors_of_each_alone(texts: Backend, dtype: str) -> None:
    backend = texts
    if dtype == "bfloat16":
        backend = TokenEncoder(device="cpu", dtype="bfloat16").loaded.backend
    random = np.random.default_rng(1)
    ids = [
        [101, *random.integers(1000, 29_000, length).tolist(), 102] for length in (40, 1, 12, 99)
    ]
    found = run_rows(backend, ids)
    # Where sums are rounded to bfloat16, a last bit may become a larger difference.
    within = 1e-5 if dtype == "float32" else 0.05
    assert difference(found, [run_rows(backend, [row])[0] for row in ids]) <= within
    # A row of an array would keep the vectors of all rows in memory.
    assert all(one.base is None for row in found for one in row)


def test_rows_are_packed_up_to_a_limit_and_short_ones_are_not() -> None:
    lengths = [50, 100, _SHORT_ROW - 1, 40, 300, _SHORT_ROW, 2]
    assert _parts(lengths, 200) == [[4], [1, 0, 3], [5], [2], [6]]
    assert _parts(lengths, 0) == [[4], [1], [0], [3], [5], [2], [6]]


def test_a_deadline_ends_packed_rows_between_layers(
    texts: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers: list[int] = []

    def past_the_deadline() -> None:
        layers.append(1)
        if len(layers) == 3:
            raise DeadlineExceededError

    monkeypatch.setattr(_minilm, "check_deadline", past_the_deadline)
    with pytest.raises(DeadlineExceededError):
        run_rows(texts, [[101, *[2003] * 30, 102]] * 2)
