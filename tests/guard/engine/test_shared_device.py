"""Scorers on a device that threads share: the same scores, whoever else is in the batch."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from knowgate.guard import Guard, GuardMetrics, GuardOptions, Policy, Reason, Route, _process
from knowgate.guard.engine import BiEncoderScorer, CrossEncoderScorer, TokenEncoder
from knowgate.guard.engine._backends import Backend, WrappedBackend, begin_rows, run_rows
from knowgate.guard.engine._batcher import SharedBackend
from knowgate.guard.engine._fallback import FallbackBackend, shared_and_protected
from tools.attack.tiny_models import WORDS, tiny_cross_encoder, tiny_encoder

pytest.importorskip("torch")
PATIENCE = 60.0
DATA = Path(__file__).parent / "data"
ROWS = st.lists(st.lists(st.integers(5, 19), min_size=1, max_size=28), min_size=1, max_size=5)
PASSAGES = ["from nine to six .", "a dog can swim", "the library is open " * 4, "."]


class Device(WrappedBackend):
    """A backend of the CPU as a device: rows run together, from when it is opened."""

    device, batched = "cuda:0", True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.busy, self.open = threading.Event(), threading.Event()
        self.lost = False

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        self.busy.set()
        assert self.open.wait(PATIENCE)
        if self.lost:
            raise RuntimeError("CUDA error: unspecified launch failure")
        return super().run(inputs)


class DeviceOfTensors(Device):
    """As `Device`, with token vectors that stay on it."""

    def start(
        self, inputs: Mapping[str, NDArray[np.int64]], lengths: Sequence[int]
    ) -> Callable[[], Any]:
        self.busy.set()
        assert self.open.wait(PATIENCE)
        if self.lost:
            raise RuntimeError("CUDA error: unspecified launch failure")
        started: Callable[[], Any] = self._backend.start(inputs, lengths)  # type: ignore[attr-defined]
        return started


def on(device: Device, scorer: Any, **options: Any) -> Any:
    """Put a scorer on a shared device."""
    loaded = scorer._loaded
    protected = FallbackBackend(device, lambda: loaded.backend)
    scorer._loaded = replace(loaded, backend=SharedBackend(protected, **options))
    if hasattr(scorer, "_cached_for"):
        scorer._cached_for = "cuda:0"
    return scorer


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("models") / "encoder")


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_cross_encoder(tmp_path_factory.mktemp("models") / "reranker")


@pytest.fixture(scope="module")
def backends(encoder: Path) -> dict[str, Backend]:
    pytest.importorskip("onnxruntime", reason="needs `pip install 'knowgate[onnx]'`")
    found = {"float32": TokenEncoder(encoder, device="cpu")._loaded.backend}
    exported = BiEncoderScorer(
        DATA / "exported_int8", backend="onnx", device="cpu", dtype="int8", cache_bytes=0
    )
    return found | {"int8": exported._loaded.backend}


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@settings(max_examples=15, deadline=None)
@given(requests=st.lists(ROWS, min_size=2, max_size=6))
def test_results_do_not_depend_on_neighbours(
    backends: dict[str, Backend], dtype: str, requests: list[list[list[int]]]
) -> None:
    device = Device(backends[dtype])
    shared = SharedBackend(FallbackBackend(device, lambda: backends[dtype]))
    first = begin_rows(shared, [[2, 5, 3]])
    assert device.busy.wait(PATIENCE)
    begun = [begin_rows(shared, rows) for rows in requests]
    device.open.set()
    first()
    for rows, wait in zip(requests, begun, strict=True):
        alone = [run_rows(backends[dtype], [row])[0] for row in rows]
        for found, expected in zip(wait(), alone, strict=True):
            for one, other in zip(found, expected, strict=True):
                if dtype == "int8":
                    assert np.array_equal(one, other)
                else:
                    np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_threads_that_ask_at_the_same_time_share_batches(reranker: Path) -> None:
    plain = CrossEncoderScorer(reranker, device="cpu")
    device = Device(plain._loaded.backend)
    scorer = on(device, CrossEncoderScorer(reranker, device="cpu"))
    questions = [" ".join(WORDS[n : n + 4]) for n in range(10)]
    before = _process.counts()["batch"]
    with ThreadPoolExecutor(16) as threads:
        first = threads.submit(scorer.score, "is the library open ?", PASSAGES)
        assert device.busy.wait(PATIENCE)
        found = [threads.submit(scorer.score, question, PASSAGES) for question in questions]
        queue = scorer._loaded.backend._batcher._queue
        for _ in range(20_000):
            if queue._waiting == 10 * len(PASSAGES):
                break
            time.sleep(0.001)
        device.open.set()
        for question, one in zip(
            ["is the library open ?", *questions], [first, *found], strict=True
        ):
            np.testing.assert_allclose(
                one.result(PATIENCE), plain.score(question, PASSAGES), rtol=0, atol=1e-5
            )
    assert _process.counts()["batch"] - before == 2


def guard_on(scorer: CrossEncoderScorer, registry: CollectorRegistry | None = None) -> Guard:
    return Guard(
        Policy.for_scorer(scorer, threshold=0.0001),
        scorer=scorer,
        options=GuardOptions(deadlines={"relevance": PATIENCE}),
        metrics=False if registry is None else GuardMetrics.on(registry),
    )


async def test_decisions_of_one_event_loop_share_batches(reranker: Path) -> None:
    plain = CrossEncoderScorer(reranker, device="cpu")
    device = Device(plain._loaded.backend)
    guard = guard_on(on(device, CrossEncoderScorer(reranker, device="cpu")))
    before = _process.counts()
    device.open.set()
    found = await asyncio.gather(
        *(guard.adecide(" ".join(WORDS[n : n + 4]), PASSAGES) for n in range(12))
    )
    expected = guard_on(plain)
    for n, decision in enumerate(found):
        alone = expected.decide(" ".join(WORDS[n : n + 4]), PASSAGES)
        assert (decision.route, decision.reason) == (alone.route, alone.reason)
        assert decision.relevance == pytest.approx(alone.relevance, abs=1e-5)
    assert _process.counts()["row"] - before["row"] == 12 * len(PASSAGES)


async def test_a_full_queue_ends_in_the_configured_route(reranker: Path) -> None:
    registry = CollectorRegistry()
    plain = CrossEncoderScorer(reranker, device="cpu")
    device = Device(plain._loaded.backend)
    scorer = on(device, CrossEncoderScorer(reranker, device="cpu"), most_waiting=len(PASSAGES))
    guard = guard_on(scorer, registry)
    first = asyncio.create_task(guard.adecide("is the library open ?", PASSAGES))
    await asyncio.to_thread(device.busy.wait, PATIENCE)
    waits = begin_rows(scorer._loaded.backend, [[2, 5, 3]])
    rejected = await guard.adecide("can a dog swim ?", PASSAGES)
    assert (rejected.route, rejected.reason) == (Route.ABSTAIN, Reason.RELEVANCE_FAILED)
    labels = {"guard": "default", "signal": "relevance", "kind": "overload"}
    assert registry.get_sample_value("knowgate_errors_total", labels) == 1
    device.open.set()
    waits()
    assert (await first).failed_signals == ()


def test_vectors_on_a_lost_device_are_forgotten(encoder: Path) -> None:
    plain = TokenEncoder(encoder, device="cpu")
    device = DeviceOfTensors(plain._loaded.backend)
    device.open.set()
    shared = on(device, TokenEncoder(encoder, device="cpu"))
    [[kept]] = shared.encode(PASSAGES[:1])
    assert kept.on_device is not None
    device.lost = True
    found = shared.encode(PASSAGES)
    assert shared.device == "cpu"
    for windows, expected in zip(found, plain.encode(PASSAGES), strict=True):
        for one, other in zip(windows, expected, strict=True):
            assert one.on_device is None
            assert np.array_equal(one.vectors, other.vectors)
            assert np.array_equal(one.embedding, other.embedding)


def test_only_what_is_not_on_a_cpu_is_shared(encoder: Path) -> None:
    loaded = BiEncoderScorer(encoder, device="cpu").loaded
    assert shared_and_protected(loaded, lambda: loaded) is loaded
    device = Device(loaded.backend)
    device.open.set()
    shared = shared_and_protected(replace(loaded, backend=device), lambda: loaded)
    assert (shared.backend.device, shared.backend.name) == ("cuda:0", "torch")
    assert isinstance(shared.backend, SharedBackend)
    assert loaded.encode_texts is not None
    assert shared.encode_texts is not None
    assert np.array_equal(shared.encode_texts(PASSAGES), loaded.encode_texts(PASSAGES))
