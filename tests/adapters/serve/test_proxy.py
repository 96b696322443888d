"""The proxy: what the upstream is asked, what the client gets, and what happens in between."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.serve import ServeLimits
from knowgate.adapters.serve._support import marked
from knowgate.guard import Decision, InputError
from tests.adapters.serve.service import (
    BAD,
    GOOD,
    Call,
    Model,
    chat,
    chunk,
    client_of,
    completion,
    make_app,
    make_guard,
)
from tests.support.deadlines import auntil

PATH = "/v1/chat/completions"


async def ask(app: Any, body: dict[str, Any]) -> httpx.Response:
    async with client_of(app) as client:
        return await client.post(PATH, json=body)


def events(response: httpx.Response) -> list[Any]:
    """The data of a stream, `[DONE]` left out, which must come last if it comes."""
    found = [one.removeprefix("data: ") for one in response.text.split("\n\n") if one.strip()]
    assert "[DONE]" not in found[:-1]
    return [json.loads(one) for one in found if one != "[DONE]"]


# -- routes ------------------------------------------------------------------------------------


async def test_kept_passages_are_in_the_prompt_and_the_field_is_not_forwarded() -> None:
    model = Model()
    body = chat("When?", BAD, GOOD, temperature=0.5, tools=[{"type": "function"}])
    found = await ask(make_app(model=model), body)

    [sent] = model.bodies
    [prompt] = model.prompts
    assert GOOD in prompt
    assert "Question: When?" in prompt
    assert sent == {
        "model": "m",
        "temperature": 0.5,
        "tools": [{"type": "function"}],
        "messages": [{"role": "user", "content": prompt}],
    }
    reply = found.json()
    assert reply["choices"][0]["message"] == {
        "role": "assistant",
        "content": "At nine.",
        "reasoning": "none",
    }
    assert reply["knowgate"]["decision"]["route"] == "follow_context"
    assert reply["knowgate"]["calibrated"] == "false"
    assert found.headers["x-knowgate-route"] == "follow_context"
    assert found.headers["x-knowgate-reason"] == "sufficient_context"


async def test_passages_that_were_left_out_are_not_in_the_prompt() -> None:
    model = Model()
    found = await ask(make_app(make_guard(kept_margin=0.1), model), chat("When?", BAD, GOOD))
    assert found.json()["knowgate"]["decision"]["kept"] == [1]
    assert BAD not in model.prompts[0]
    assert GOOD in model.prompts[0]


async def test_an_answer_from_memory_sees_no_passage() -> None:
    model = Model()
    found = await ask(make_app(make_guard(confidence=0.9), model), chat("Why?", BAD))
    assert model.bodies == [{"model": "m", "messages": [{"role": "user", "content": "Why?"}]}]
    assert found.headers["x-knowgate-route"] == "answer"
    # The closed-book answer that was drawn to measure confidence is not shown.
    assert "an answer" not in found.text


@pytest.mark.parametrize("n", [1, 2])
async def test_an_abstention_does_not_ask_the_upstream(n: int) -> None:
    model = Model()
    app = make_app(model=model, replies={"insufficient_context": "Ask the desk."})
    found = await ask(app, chat("When?", BAD, n=n))
    assert model.bodies == []
    reply = found.json()
    assert [one["message"]["content"] for one in reply["choices"]] == ["Ask the desk."] * n
    assert [one["finish_reason"] for one in reply["choices"]] == ["stop"] * n
    assert (reply["object"], reply["model"]) == ("chat.completion", "m")
    assert reply["knowgate"]["decision"]["reason"] == "insufficient_context"
    assert found.headers["x-knowgate-route"] == "abstain"


async def test_an_abstention_streams_as_well_formed_chunks() -> None:
    model = Model()
    app = make_app(model=model, replies="Ask the desk.")
    body = chat("When?", BAD, stream=True, stream_options={"include_usage": True})
    found = await ask(app, body)
    assert found.headers["content-type"].startswith("text/event-stream")
    assert found.text.endswith("data: [DONE]\n\n")
    sent = events(found)
    assert {one["object"] for one in sent} == {"chat.completion.chunk"}
    assert len({one["id"] for one in sent}) == 1
    deltas = [one["choices"][0]["delta"] for one in sent[:-1]]
    first = {"role": "assistant", "content": "", "refusal": None}
    assert deltas == [first, {"content": "Ask the desk."}, {}]
    assert [one["choices"][0]["finish_reason"] for one in sent[:-1]] == [None, None, "stop"]
    assert sent[-1]["choices"] == []
    assert sent[-1]["usage"]["total_tokens"] == 0
    assert sent[0]["knowgate"]["decision"]["route"] == "abstain"
    assert model.bodies == []


async def test_the_last_message_of_the_user_is_the_question_and_other_parts_stay() -> None:
    model = Model()
    image = {"type": "image_url", "image_url": {"url": "data:,"}, "text": "Why?"}
    texts = [{"type": "text", "text": text} for text in ("When", "today?")]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "reply"},
        {"role": "user", "name": "Ann", "content": [texts[0], image, texts[1]]},
    ]
    await ask(make_app(model=model), chat("", GOOD) | {"messages": messages})
    sent = model.bodies[0]["messages"]
    assert sent[:3] == messages[:3]
    assert (sent[3]["name"], sent[3]["content"][1]) == ("Ann", image)
    assert "Question: When\ntoday?" in sent[3]["content"][0]["text"]
    assert "Why?" not in sent[3]["content"][0]["text"]
    assert len(sent[3]["content"]) == 2


async def test_the_client_can_name_the_question_that_is_judged() -> None:
    asked: list[str] = []

    def retriever(question: str) -> list[str]:
        asked.append(question)
        return [GOOD]

    app = make_app(model=Model(), retriever=retriever)
    body = chat("And on Sundays?", knowgate={"question": "When do you open on Sundays?"})
    found = await ask(app, body)
    assert asked == ["When do you open on Sundays?"]
    assert found.headers["x-knowgate-route"] == "follow_context"


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []},
        {"messages": [{"role": "system", "content": "x"}], "knowgate": {"question": "q"}},
        {"knowgate": {"passages": "x"}},
        {"n": 1000},
        {"n": "2"},
    ],
    ids=lambda change: json.dumps(change)[:40],
)
async def test_requests_that_cannot_be_guarded_are_rejected(change: dict[str, Any]) -> None:
    model = Model()
    found = await ask(make_app(model=model), chat("When?", GOOD) | change)
    assert (found.status_code, model.bodies) == (422, [])
    assert found.json()["error"]["type"] == "invalid_request_error"


async def test_text_that_cannot_be_encoded_reaches_the_upstream_escaped() -> None:
    model = Model()
    async with client_of(make_app(model=model)) as client:
        body = json.dumps(chat("When \ud800?", GOOD + "\ud800"))
        headers = {"content-type": "application/json"}
        found = await client.post(PATH, content=body, headers=headers)
    assert found.status_code == 200
    assert "nine" in model.prompts[0]


# -- passages from a retriever -----------------------------------------------------------------


async def coroutine(question: str) -> list[str]:
    await asyncio.sleep(0)
    return [GOOD]


@pytest.mark.parametrize(
    "retriever",
    [
        lambda question: [GOOD],
        coroutine,
        RunnableLambda(lambda question: [Document(GOOD, metadata={"title": "Hours"})]),
        RunnableLambda(coroutine),
    ],
    ids=["function", "coroutine function", "runnable", "async runnable"],
)
async def test_a_configured_retriever_finds_the_passages(retriever: Any) -> None:
    model = Model()
    found = await ask(make_app(model=model, retriever=retriever), chat())
    assert found.headers["x-knowgate-route"] == "follow_context"
    assert GOOD in model.prompts[0]


def hang(question: str) -> list[str]:
    threading.Event().wait(60)
    return [GOOD]


async def ahang(question: str) -> list[str]:
    await asyncio.sleep(60)
    return [GOOD]


def fail(question: str) -> list[str]:
    raise RuntimeError(question)


@pytest.mark.parametrize(
    ("retriever", "reason"),
    [
        (fail, "retrieval_failed"),
        (hang, "retrieval_failed"),
        (ahang, "retrieval_failed"),
        (type("", (), {"__call__": staticmethod(ahang), "__name__": "hang"})(), "retrieval_failed"),
        (lambda question: 3, "invalid_passages"),
        (lambda question: [3], "invalid_passages"),
        (lambda question: None, "nothing_retrieved"),
        (lambda question: [GOOD] * 1001, "input_too_large"),
    ],
    ids=["raises", "hangs", "hangs async", "async call", "number", "numbers", "none", "many"],
)
async def test_a_retriever_that_fails_has_its_own_abstention(retriever: Any, reason: str) -> None:
    model, seen = Model(), list[Decision]()
    guard = make_guard(observers=[seen.append])
    seconds = 0.05 if "hang" in getattr(retriever, "__name__", "") else 10
    app = make_app(guard, model, retriever=retriever, retriever_seconds=seconds)
    found = await ask(app, chat())
    assert found.status_code == 200
    assert found.json()["knowgate"]["decision"]["reason"] == reason
    assert model.bodies == []
    assert [one.reason for one in seen] == [reason]


def test_a_deadline_that_is_no_number_is_refused() -> None:
    for name in ("upstream_seconds", "retriever_seconds"):
        options: dict[str, Any] = {name: math.nan}
        with pytest.raises(InputError, match="positive seconds"):
            make_app(model=Model(), retriever=fail, **options)


# -- shadow mode -------------------------------------------------------------------------------


async def test_shadow_mode_changes_nothing_and_decides_beside() -> None:
    model, seen = Model(), list[Decision]()
    guard = make_guard(observers=[seen.append], mode="shadow")
    found = await ask(make_app(guard, model), chat("When?", BAD))
    assert found.json()["choices"][0]["message"]["content"] == "At nine."
    assert BAD in model.prompts[0]
    assert found.headers["x-knowgate-mode"] == "shadow"
    await auntil(lambda: bool(seen))
    assert [one.reason for one in seen] == ["insufficient_context"]

    await ask(make_app(guard, model), chat("Hello"))
    assert model.prompts[1] == "Hello"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_failures_that_may_pass_are_tried_again(stream: bool) -> None:
    model = Model()
    again = {"retry-after": "0"}
    model.fault = lambda number: httpx.Response(503, headers=again) if number < 3 else None
    found = await ask(make_app(model=model), chat("When?", GOOD, stream=stream))
    assert (found.status_code, len(model.bodies)) == (200, 3)


def broken(number: int) -> httpx.Response:
    raise httpx.ConnectError("with text of a user")


def late(number: int) -> httpx.Response:
    raise httpx.ReadTimeout("late")


def packed() -> httpx.Response:
    headers = {"content-encoding": "gzip, gzip", "content-type": "text/event-stream"}
    return httpx.Response(200, headers=headers, stream=_Pieces(b"x"))


FAULTS = pytest.mark.parametrize(
    ("fault", "status", "code", "attempts"),
    [
        (lambda n: httpx.Response(500, headers={"retry-after": "0"}), 502, "upstream_failed", 2),
        (lambda n: httpx.Response(429, headers={"retry-after": "0"}), 429, "upstream_busy", 2),
        (lambda n: httpx.Response(401, text="no"), 502, "upstream_key", 1),
        (lambda n: httpx.Response(302), 502, "upstream_failed", 1),
        (
            lambda n: httpx.Response(404, json={"error": {"code": "no_model", "message": "x"}}),
            422,
            "upstream_rejected",
            1,
        ),
        (broken, 502, "upstream_unreachable", 2),
        (late, 504, "upstream_timeout", 1),
        (lambda n: httpx.Response(200, text="<html>"), 502, "upstream_invalid", 1),
        (lambda n: httpx.Response(200, text=""), 502, "upstream_invalid", 1),
        (lambda n: packed(), 502, "upstream_invalid", 1),
        (lambda n: httpx.Response(200, json={"choices": []}), 502, "upstream_invalid", 1),
        (lambda n: httpx.Response(200, text="[" * 100_000), 502, "upstream_invalid", 1),
        (lambda n: httpx.Response(200, text='{"choices": [1e999]}'), 502, "upstream_invalid", 1),
    ],
    ids=[
        "500", "429", "401", "302", "404", "refused", "late", "html", "empty", "packed",
        "no choices", "deep", "infinite",
    ],
)  # fmt: skip


@FAULTS
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_failures_of_the_upstream_are_typed_and_decided(
    monkeypatch: pytest.MonkeyPatch, fault: Any, status: int, code: str, attempts: int, stream: bool
) -> None:
    monkeypatch.setattr("knowgate.adapters.serve._upstream._FIRST_WAIT", lambda state: 0)
    model = Model()
    model.fault = fault
    app = make_app(model=model, upstream_retries=1)
    found = await ask(app, chat("When?", GOOD, stream=stream))
    assert (found.status_code, found.json()["error"]["code"]) == (status, code)
    assert len(model.bodies) == attempts
    assert found.headers["x-knowgate-route"] == "follow_context"
    assert "user" not in found.text
    if code == "upstream_rejected":
        assert "no_model" in found.json()["error"]["message"]


async def test_an_upstream_that_hangs_is_given_up() -> None:
    async def hanging(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        return httpx.Response(200)

    found = await ask(make_app(model=hanging, upstream_seconds=0.05), chat("When?", GOOD))
    assert (found.status_code, found.json()["error"]["code"]) == (504, "upstream_timeout")


# -- streams -----------------------------------------------------------------------------------


class Slow(Model):
    """A stream of which each chunk is let go by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.closed = asyncio.Event()

    async def _chunks(self, body: dict[str, Any]):  # type: ignore[no-untyped-def]
        try:
            while (piece := await self.pieces.get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed.set()


async def test_a_stream_passes_through_as_it_arrives() -> None:
    model = Slow()
    call = Call(make_app(model=model), PATH, chat("When?", GOOD, stream=True))
    start = await call.next()
    headers = dict(start["headers"])
    assert headers[b"x-knowgate-route"] == b"follow_context"
    assert headers[b"content-type"].startswith(b"text/event-stream")

    model.pieces.put_nowait(b": keep-alive\n\n")
    assert (await call.next())["body"] == b": keep-alive\n\n"
    first = chunk("At", {"model": "m"})
    model.pieces.put_nowait(first[:20])
    model.pieces.put_nowait(first[20:])
    sent = json.loads((await call.next())["body"].removeprefix(b"data: "))
    assert sent.pop("knowgate")["decision"]["route"] == "follow_context"
    assert sent == json.loads(first.removeprefix(b"data: "))
    for event in (chunk("nine.", {"model": "m"}), b"data: half an event\n\n"):
        model.pieces.put_nowait(event[:10])
        model.pieces.put_nowait(event[10:])
        assert (await call.next())["body"] == event
    model.pieces.put_nowait(None)
    assert await call.next() == {"type": "http.response.body", "body": b"", "more_body": False}
    await asyncio.wait_for(call.task, 30)


async def test_long_events_pass_soon_and_a_cut_one_does_not_become_an_event() -> None:
    pieces = [b"data: 1\n\n", b"data: ", *[b"x" * 64] * 16_000, b"\r\n\r", b"\n", b"data: {"]

    async def told() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    started = time.perf_counter()
    found = [event async for event in marked(told(), {})]
    assert time.perf_counter() - started < 10
    assert found == [pieces[0], b"".join(pieces[1:-1]), pieces[-1]]


async def test_a_client_that_leaves_cancels_the_upstream() -> None:
    model = Slow()
    app = make_app(model=model, limits=ServeLimits(concurrency=1))
    call = Call(app, PATH, chat("When?", GOOD, stream=True))
    await call.next()

    call.leave()

    await asyncio.wait_for(model.closed.wait(), 30)
    await asyncio.wait_for(call.task, 30)
    assert app.state.admission.idle


async def test_a_stream_that_breaks_ends_with_an_error() -> None:
    model = Slow()
    call = Call(make_app(model=model), PATH, chat("When?", GOOD, stream=True))
    await call.next()
    model.pieces.put_nowait(chunk("At", {"model": "m"}))
    await call.next()
    model.pieces.put_nowait(httpx.ReadTimeout("hangs"))

    last = await call.next()

    sent = json.loads(last["body"].strip().removeprefix(b"data: "))
    assert sent["error"]["code"] == "upstream_timeout"
    assert (await call.next())["more_body"] is False
    assert model.closed.is_set()


class _Pieces(httpx.AsyncByteStream):
    """The body of a response that says nothing about its length: the connection ends it."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([chunk("At", {"model": "m"})], False),
        ([chunk("At", {"model": "m"})[:-9]], False),
        ([chunk("data: [DONE]", {"model": "m"})], False),
        ([chunk("At", {"model": "m"}), b"data: [DO", b"NE]\n\n"], True),
        ([b"data: [DONE]\r\n\r\n"], True),
    ],
    ids=["between events", "in an event", "by its text", "whole", "nothing else"],
)
async def test_a_stream_whose_connection_ends_too_early_ends_with_an_error(
    pieces: list[bytes], whole: bool
) -> None:
    model = Model()
    headers = {"content-type": "text/event-stream"}
    model.fault = lambda number: httpx.Response(200, headers=headers, stream=_Pieces(*pieces))
    found = await ask(make_app(model=model), chat("When?", GOOD, stream=True))
    assert (b"upstream_unreachable" in found.content) is not whole


async def test_cookies_of_one_client_do_not_go_out_with_the_next_one() -> None:
    model = Model()
    cookie, said = {"set-cookie": "session=1; Path=/"}, completion("At nine.", {"model": "m"})
    model.fault = lambda number: httpx.Response(200, headers=cookie, json=said)
    app = make_app(model=model)
    for _ in range(3):
        assert "set-cookie" not in (await ask(app, chat("When?", GOOD))).headers
    assert [headers.get("cookie") for headers in model.headers] == [None] * 3


@pytest.mark.parametrize(
    ("after", "seconds"),
    [("120", "120"), ("9" * 400, "31536000"), ("Wed, 21 Oct 2099 07:28:00 GMT", "31536000")],
    ids=["two minutes", "for ever", "a date"],
)
async def test_an_upstream_that_asks_to_wait_for_long_is_not_asked_again(
    after: str, seconds: str
) -> None:
    model = Model()
    model.fault = lambda number: httpx.Response(429, headers={"retry-after": after})
    found = await ask(make_app(model=model), chat("When?", GOOD))
    assert (found.status_code, found.headers["retry-after"]) == (429, seconds)
    assert len(model.bodies) == 1


async def test_a_wait_beyond_the_deadline_of_the_upstream_stays_429() -> None:
    model = Model()
    model.fault = lambda number: httpx.Response(429, headers={"retry-after": "4"})
    found = await ask(make_app(model=model, upstream_seconds=2.0), chat("When?", GOOD))
    assert (found.status_code, found.headers["retry-after"]) == (429, "4")
