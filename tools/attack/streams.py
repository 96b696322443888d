"""Streams that are cut in the middle: of the proxy and of the playground, by either side."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from langchain_core.runnables import RunnableGenerator

from knowgate.adapters.langchain import GuardedRAG
from knowgate.adapters.serve import ServeLimits
from knowgate.offline_eval.web import Playground, play_app
from tests.adapters.serve.service import (
    GOOD,
    Call,
    Model,
    chat,
    chunk,
    client_of,
    make_app,
    make_guard,
)
from tests.offline_eval.web.test_play import chain_of

from .outcome import Outcome, tally

_PATH = "/v1/chat/completions"
_EVENTS = b"".join(chunk(word, {"model": "m"}) for word in ("At ", "nine.")) + b"data: [DONE]\n\n"
_WHOLE = len(_EVENTS) - 2


class _Cut(httpx.AsyncByteStream):
    """A stream of which so many bytes come, in small pieces; it raises where a length was told."""

    def __init__(self, size: int, piece: int, *, told: bool) -> None:
        self._size, self._piece, self._told = size, piece, told

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, self._size, self._piece):
            yield _EVENTS[start : min(start + self._piece, self._size)]
        if self._told and self._size < len(_EVENTS):
            raise httpx.RemoteProtocolError("cut")


async def cuts(step: int) -> Outcome:
    """Cut the upstream's stream after every `step` bytes, with and without a check of replies.

    A cut gets through if the client sees no error, or an end as of a whole reply.
    """
    cases = []
    for checked in (False, True):
        model = Model()
        guard = make_guard(on_unsupported="flag") if checked else make_guard()
        async with client_of(make_app(guard, model, upstream_retries=0)) as client:
            for framing in ("chunked", ""):
                for size in range(0, _WHOLE, step):
                    model.fault = partial(_cut, size, framing)
                    found = await client.post(_PATH, json=chat("When?", GOOD, stream=True))
                    name = f"{size} of {len(_EVENTS)} bytes, {framing}{', checked' * checked}"
                    cases.append((name, found.content))
    return tally("a stream cut by the upstream that looks whole", cases, _looks_whole)


def _cut(size: int, framing: str, _number: int) -> httpx.Response:
    headers = {"content-type": "text/event-stream"}
    if framing:
        headers["transfer-encoding"] = framing
    stream = _Cut(size, 1 + size % 97, told=bool(framing))
    return httpx.Response(200, headers=headers, stream=stream)


def _looks_whole(content: bytes) -> bool:
    events = content.split(b"\n\n")
    ended = any(one.strip() == b"data: [DONE]" for one in events)
    return ended or not any(map(_is_error, events))


def _is_error(event: bytes) -> bool:
    with contextlib.suppress(ValueError):
        found = json.loads(event.strip().removeprefix(b"data: "))
        return isinstance(found, dict) and "error" in found
    return False


class _Watched(Model):
    """An upstream that says one word after the other for ever, and knows when it is left."""

    def __init__(self) -> None:
        super().__init__()
        self.open = 0

    async def _chunks(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        self.open += 1
        try:
            while True:
                yield chunk("word ", body)
                await asyncio.sleep(0)
        finally:
            self.open -= 1


async def leaving(count: int) -> Outcome:
    """Leave after so many messages of a stream: the upstream is left, too; the place is free."""
    model = _Watched()
    app = make_app(model=model, limits=ServeLimits(concurrency=2))
    left_open = []
    for number in range(count):
        call = Call(app, _PATH, chat("When?", GOOD, stream=True))
        for _ in range(number % 20):
            await call.next()
        call.leave()
        ended = await asyncio.wait({call.task}, timeout=20)
        held = bool(ended[1]) or model.open or not app.state.admission.idle
        left_open.append((str(number), held))
    return tally("a stream that its client leaves and that goes on", left_open, bool)


class _Broken(Exception):  # noqa: N818 - what a chain raises
    """The chain broke: its text may hold a key, sk-secret."""


def _breaking(place: int, error: BaseException) -> GuardedRAG:
    """A chain that raises at its retriever (0), or after so many words of the reply."""

    def retrieve(question: str) -> Any:
        del question
        raise error

    async def words(given: AsyncIterator[dict[str, Any]]) -> AsyncIterator[str]:
        async for _ in given:
            for number in range(1, 5):
                if number >= place:
                    raise error
                yield "word "

    chain = chain_of(retrieve if place == 0 else None)
    if place == 0:
        return chain
    return GuardedRAG(
        guard=chain.guard, retriever=chain.retriever, with_context=RunnableGenerator(words)
    )


def _tells_no_end(folder: Path, case: tuple[int, BaseException]) -> bool:
    place, error = case
    ground = Playground(_breaking(place, error), "t", folder / "saved.jsonl")

    async def ask() -> str:
        async with client_of(play_app(ground)) as client:
            return (await client.post("/ask", json={"question": "When?"})).text

    lines: list[Any] = []

    def work() -> None:
        with contextlib.suppress(BaseException):
            lines.extend(map(json.loads, asyncio.run(ask()).splitlines()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    ends = [one for one in lines if one["event"] in ("end", "error")]
    return thread.is_alive() or len(ends) != 1 or lines[-1] != ends[0] or "secret" in str(lines)


def playing(folder: Path) -> Outcome:
    """Break the chain of the playground at each step, by errors of many kinds."""
    errors = (
        _Broken(_Broken.__doc__),
        RecursionError(),
        MemoryError(),
        StopAsyncIteration(),
        StopIteration(),
        TimeoutError(),
        asyncio.CancelledError(),
        UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates"),
    )
    cases = [
        (f"{type(error).__name__} at step {place}", (place, error))
        for error in errors
        for place in range(4)
    ]
    return tally(
        "a chain that breaks under `play` without an end", cases, partial(_tells_no_end, folder)
    )


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Cut streams at every place, and leave them."""
    logging.getLogger("knowgate.serve").setLevel(logging.CRITICAL)
    yield asyncio.run(cuts(1 if full else 53))
    yield asyncio.run(leaving(100 if full else 5))
    yield playing(folder)
