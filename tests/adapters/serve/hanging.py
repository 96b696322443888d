"""Many concurrent requests against a scorer that hangs."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Any

import httpx

from knowgate.guard.testing import FakeScorer
from tests.adapters.serve.service import GOOD, Model, chat, client_of, make_app, make_guard


class HangingScorer(FakeScorer):
    """A scorer of which no call returns before it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def score_pairs(self, pairs: Any) -> Any:
        """Wait."""
        self.go.wait(600)
        return super().score_pairs(pairs)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of the requests.

    Attributes:
        replies: one per request.
        threads: the most there were at once, beyond those before.
        seconds: until the last reply.
        longest: seconds of the request that took longest.
        asked: requests that reached the upstream.
    """

    replies: list[httpx.Response]
    threads: int
    seconds: float
    longest: float
    asked: int


async def flood(number: int, deadline: float, path: str) -> Outcome:
    """Send so many requests at once.

    Args:
        number: of requests.
        deadline: of the guard's scorer, in seconds.
        path: of the endpoint.
    """
    scorer, model = HangingScorer(), Model()
    app = make_app(make_guard(scorer, deadlines={"relevance": deadline}), model)
    chatting = path.endswith("completions")
    body = chat("When?", GOOD) if chatting else {"question": "When?", "passages": [GOOD]}
    before, most, took = threading.active_count(), 0, []

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, threading.active_count())
            await asyncio.sleep(0.005)

    async def one(client: httpx.AsyncClient) -> httpx.Response:
        began = time.monotonic()
        reply = await client.post(path, json=body)
        took.append(time.monotonic() - began)
        return reply

    watching = asyncio.create_task(watch())
    started = time.monotonic()
    async with client_of(app, timeout=600) as client:
        replies = await asyncio.gather(*(one(client) for _ in range(number)))
    seconds = time.monotonic() - started
    watching.cancel()
    scorer.go.set()
    return Outcome(replies, most - before, seconds, max(took), len(model.bodies))
