"""More calls than the queue of a device takes: those that are rejected abstain, none is lost."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from knowgate.guard import Reason
from knowgate.guard.engine._batcher import Batcher
from knowgate.guard.testing import FakeScorer
from tests.support.deadlines import auntil
from tests.support.guards import guard_with

CALLS, ROOM = 200, 5


class QueuedScorer(FakeScorer):
    """Scores on one device, which is busy until it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.busy = threading.Event(), threading.Event()
        self._batcher: Batcher[str, float] = Batcher(
            self._compute, size=lambda row: 1, most_waiting=ROOM
        )

    def _compute(self, rows: list[str]) -> list[float]:
        self.busy.set()
        assert self.open.wait(60)
        return [0.9] * len(rows)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        return np.asarray(self._batcher.begin([passage for _, passage in pairs])())


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_two_hundred_calls_with_room_for_five_end_in_a_route(asynchronous: bool) -> None:
    scorer, registry = QueuedScorer(), CollectorRegistry()
    guard = guard_with(
        scorer=scorer,
        metrics=True,
        registry=registry,
        deadlines={"relevance": 60.0},
        at_once={"relevance": CALLS},
    )
    with ThreadPoolExecutor(CALLS) as threads:

        def call() -> asyncio.Future[object]:
            if asynchronous:
                return asyncio.ensure_future(guard.adecide("q", ["p"]))
            return asyncio.wrap_future(threads.submit(guard.decide, "q", ["p"]))

        calls = [call()]
        await auntil(scorer.busy.is_set)
        calls += [call() for _ in range(CALLS - 1)]
        await auntil(lambda: sum(one.done() for one in calls) == CALLS - 1 - ROOM)
        scorer.open.set()
        decisions = await asyncio.gather(*calls)

    reasons = Counter(one.reason for one in decisions)  # type: ignore[attr-defined]
    assert reasons == {
        Reason.RELEVANCE_FAILED: CALLS - 1 - ROOM, Reason.SUFFICIENT_CONTEXT: 1 + ROOM,
    }  # fmt: skip
    labels = {"guard": "default", "signal": "relevance", "kind": "overload"}
    assert registry.get_sample_value("knowgate_errors_total", labels) == CALLS - 1 - ROOM
