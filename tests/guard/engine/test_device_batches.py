"""Batches for a GPU, on the CPU: the same code without graphs and pinned memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowgate.guard.engine import BiEncoderScorer, TokenEncoder, best_on_device
from knowgate.guard.engine._backends import begin_rows, run_rows
from knowgate.guard.engine._device_batches import (
    LENGTHS,
    GraphRuns,
    mask_of,
    padded,
    plan_batches,
    to_device,
    to_host,
    unpadded_batches,
)
from knowgate.guard.signals.relevance import load_scorer
from tools.attack.tiny_models import tiny_encoder

torch = pytest.importorskip("torch")
TEXTS = ["when is the library open ?", "from nine to six .", "a dog can swim", "", "is open " * 9]
SETS = [["the library is open from nine to six ."], ["a dog can swim .", "is open " * 60, "a"]]


def batched(encoder: Any) -> Any:
    """The encoder or scorer with its rows run together, as on a GPU."""
    getattr(encoder, "encoder", encoder).loaded.backend.batched = True
    return encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("model") / "tiny")


def test_batches_hold_every_row_once_and_keep_to_the_budget() -> None:
    lengths = [int(n) for n in np.random.default_rng(0).integers(1, 520, 300)]
    found = plan_batches(lengths, 2_048)
    assert sorted(row for batch in found for row in batch.rows) == list(range(300))
    for batch in found:
        longest = max(lengths[row] for row in batch.rows)
        assert longest <= batch.length
        assert batch.length in LENGTHS or batch.length == longest
        assert batch.height * batch.length <= 2_048 or len(batch.rows) == 1
        assert len(batch.rows) <= batch.height


def test_small_batches_mix_lengths_and_large_ones_do_not() -> None:
    assert len(plan_batches([120, 90, 20, 10])) == 1
    many = plan_batches([250] * 200 + [20] * 200)
    assert all(
        len({len_ > 100 for len_ in rows}) == 1
        for rows in ([250 if row < 200 else 20 for row in batch.rows] for batch in many)
    )


def test_small_batches_come_in_few_shapes() -> None:
    draw = np.random.default_rng(1)
    shapes = set()
    for _ in range(300):
        lengths = [int(n) for n in draw.integers(5, 250, int(draw.integers(1, 20)))]
        shapes |= {(one.height, one.length) for one in plan_batches(lengths)}
    assert len(shapes) < 100


def test_rows_that_only_pad_have_a_token() -> None:
    [batch] = plan_batches([3] * 5)
    assert (batch.height, batch.length) == (6, 16)
    assert mask_of([[1, 2, 3]] * 5, batch).sum(1).tolist() == [3] * 5 + [1]
    assert padded([[1, 2, 3]] * 5, batch)[5].tolist() == [0] * 16


def test_padding_changes_no_encoded_text_beyond_rounding(folder: Path) -> None:
    alone = TokenEncoder(folder, device="cpu", cache_bytes=0).encode(TEXTS)
    together = batched(TokenEncoder(folder, device="cpu", cache_bytes=0)).encode(TEXTS)
    for one, other in zip(alone, together, strict=True):
        for window, same in zip(one, other, strict=True):
            assert window.on_device is None
            assert same.on_device is not None
            assert window.ids.tolist() == same.ids.tolist()
            assert np.abs(window.vectors - same.vectors).max() <= 1e-5
            assert np.abs(window.embedding - same.embedding).max() <= 1e-5


def test_texts_are_tokenised_while_the_ones_before_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowgate.guard.engine._encoder._TEXTS_AT_ONCE", 2)
    encoder = batched(TokenEncoder(folder, device="cpu"))
    events: list[str] = []
    backend, windows = encoder._loaded.backend, encoder._windows
    start = backend.start

    def started(*given: Any) -> Any:
        events.append("start")
        wait = start(*given)

        def waited() -> Any:
            events.append("wait")
            return wait()

        return waited

    def tokenised(*given: Any) -> Any:
        events.append("tokenise")
        return windows(*given)

    monkeypatch.setattr(backend, "start", started)
    monkeypatch.setattr(encoder, "_windows", tokenised)
    encoder.encode(TEXTS[:4])
    assert events == ["tokenise", "tokenise", "start"] * 2 + ["wait"] * 2


@pytest.mark.parametrize("name", ["sufficiency", "late_interaction"])
def test_batched_scores_are_those_one_by_one(name: str) -> None:
    questions = ["when is the library open ?", "can a dog swim ?"]
    one: Any = load_scorer(name, device="cpu")
    many = batched(load_scorer(name, device="cpu"))
    for alone, together in zip(
        one.score_sets(questions, SETS), many.score_sets(questions, SETS), strict=True
    ):
        assert np.abs(np.subtract(alone.scores, together.scores)).max() <= 1e-5
        assert abs(alone.joint - together.joint) <= 1e-5
    pairs = [(questions[0], "a dog"), (questions[1], ""), (questions[1], "six " * 300)]
    assert np.abs(one.score_pairs(pairs) - many.score_pairs(pairs)).max() <= 1e-5


def test_bi_encoder_batches_agree(folder: Path) -> None:
    exact = BiEncoderScorer(folder, device="cpu", cache_bytes=0)
    rows = [[2, *range(5, 5 + n), 3] for n in (9, 1, 4)]
    backend: Any = exact.loaded.backend
    alone = run_rows(backend, rows)
    backend.batched = True
    together = begin_rows(backend, rows)()
    for one, other in zip(alone, together, strict=True):
        assert np.abs(one[1] - other[1]).max() <= 1e-5
        assert np.abs(one[0] - other[0].numpy()).max() <= 1e-5


def test_products_of_pairs_are_those_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    # A few rows per product, so that pairs are cut into several.
    monkeypatch.setattr("knowgate.guard.engine._device_batches._NUMBERS_PER_PRODUCT", 200)
    draw = np.random.default_rng(0)
    asked = [draw.normal(size=(n, 4)).astype(np.float32) for n in (3, 0, 5)]
    told = [draw.normal(size=(n, 4)).astype(np.float32) for n in (7, 1, 12, 2)]
    pairs = [(0, 0), (0, 2), (1, 1), (2, 3), (2, 0)]
    found = best_on_device(
        [torch.from_numpy(one) for one in asked], [torch.from_numpy(one) for one in told], pairs
    )
    for (question, passage), best in zip(pairs, found, strict=True):
        left, right = (
            one / np.linalg.norm(one, axis=1, keepdims=True)
            for one in (asked[question], told[passage])
        )
        expected = (left @ right.T).max(axis=1) if len(left) else np.zeros(0)
        assert best.shape == expected.shape
        assert np.abs(best - expected).max(initial=0.0) <= 1e-6
    assert [one.tolist() for one in best_on_device([torch.zeros(0, 4)], told, [(0, 0)])] == [[]]


class Captures:
    """Stands in for CUDA graphs: outputs are overwritten by the next replay."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.tried, self.replays = fails, 0, 0

    def __call__(self, model: Any, inputs: Mapping[str, Any]) -> Any:
        self.tried += 1
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        kept = tuple(torch.empty_like(one) for one in model(inputs))

        def replay(given: Mapping[str, Any]) -> Any:
            self.replays += 1
            for old, new in zip(kept, model(given), strict=True):
                old.copy_(new)
            return kept

        return replay


def double(inputs: Mapping[str, Any]) -> tuple[Any, ...]:
    return (inputs["input_ids"] * 2,)


def test_a_shape_is_captured_when_it_comes_again() -> None:
    captures = Captures()
    runs = GraphRuns(double, captures)
    for value in (1, 2, 3):
        given = {"input_ids": torch.full((2, 16), value)}
        assert runs(given)[0].tolist() == (given["input_ids"] * 2).tolist()
        runs({"input_ids": torch.ones(1_024, 16, dtype=torch.int64)})
    # The second shape is too large for a graph to gain anything.
    assert (captures.tried, captures.replays, runs.shapes) == (1, 2, 1)


def test_without_graphs_where_a_capture_fails(caplog: pytest.LogCaptureFixture) -> None:
    captures = Captures(fails=True)
    runs = GraphRuns(double, captures)
    for _ in range(4):
        assert runs({"input_ids": torch.ones(2, 2)})[0].tolist() == [[2, 2], [2, 2]]
    assert (captures.tried, runs.shapes) == (1, 0)
    assert "without CUDA graphs" in caplog.text


def test_memory_that_runs_out_while_capturing_is_the_callers_to_handle() -> None:
    def full(model: Any, inputs: Any) -> Any:
        raise torch.OutOfMemoryError

    runs = GraphRuns(double, full)
    runs({"input_ids": torch.ones(2, 2)})
    with pytest.raises(torch.OutOfMemoryError):
        runs({"input_ids": torch.ones(2, 2)})
    assert runs._capture is full


def test_results_survive_the_next_replay(folder: Path) -> None:
    encoder = batched(TokenEncoder(folder, device="cpu", cache_bytes=0))
    expected = [one[0].vectors.copy() for one in encoder.encode(TEXTS[:2])]
    backend = encoder._loaded.backend
    backend._runs._capture = Captures()
    for _ in range(2):
        encoder.encode([TEXTS[0]])
    [kept] = encoder.encode([TEXTS[0]])
    [other] = encoder.encode([TEXTS[1]])
    assert backend._runs.shapes == 1
    assert np.abs(kept[0].vectors - expected[0]).max() <= 1e-5
    assert np.abs(other[0].vectors - expected[1]).max() <= 1e-5


def test_one_copy_each_way() -> None:
    given = {"a": np.arange(6).reshape(2, 3), "b": np.ones((2, 3), dtype=np.int64)}
    moved = to_device(given, "cpu")
    assert moved["a"].untyped_storage().data_ptr() == moved["b"].untyped_storage().data_ptr()
    assert to_host(moved["a"])().tolist() == given["a"].tolist()


def test_unpadded_batches_hold_rows_of_one_length() -> None:
    found = unpadded_batches([3, 5, 3, 5, 3, 9], budget=8)
    assert [(one.rows, one.height, one.length) for one in found] == [
        ((0, 2), 2, 3),
        ((4,), 1, 3),
        ((1,), 1, 5),
        ((3,), 1, 5),
        ((5,), 1, 9),
    ]


def test_a_product_that_does_not_fit_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    asked, told = ([torch.randn(4, 8, generator=draw) for _ in range(3)] for _ in range(2))
    pairs = [(q, p) for q in range(3) for p in range(3)]
    expected = best_on_device(asked, told, pairs)
    multiply, sizes = torch.bmm, []

    def bmm(left: Any, right: Any) -> Any:
        sizes.append(len(left))
        if len(left) > 3:
            raise torch.OutOfMemoryError
        return multiply(left, right)

    monkeypatch.setattr(torch, "bmm", bmm)
    found = best_on_device(asked, told, pairs)
    assert sizes == [9, 4, 2, 2, 5, 2, 3]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
