"""Broken parts, cancelled callers and oversized input."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableGenerator, RunnableLambda

from knowgate.adapters.langchain import RetrievalError
from knowgate.guard import InputLimits, Reason, Route
from tests.adapters.langchain.fakes import WAYS, RunsHandler, Setting, run
from tests.support.deadlines import auntil
from tests.support.hostile import Exits


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failing_retriever_is_abstained_from_counted_and_logged_without_text(
    asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    setting = Setting()

    with caplog.at_level(logging.WARNING):
        answer = await run(setting.chain, "broken private words", asynchronous)

    assert answer.decision.route is Route.ABSTAIN
    assert answer.decision.reason is Reason.RETRIEVAL_FAILED
    assert "try again later" in answer.answer
    assert setting.counted("retrieval_failed") == 1
    assert "OSError" in caplog.text
    assert "private" not in caplog.text


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_failing_retriever_can_be_raised(asynchronous: bool) -> None:
    with pytest.raises(OSError, match="no route"):
        await run(Setting(on_retriever_error="raise").chain, "broken", asynchronous)


def test_a_failing_retriever_is_raised_in_shadow_mode_and_counted() -> None:
    setting = Setting(mode="shadow")

    with pytest.raises(OSError, match="no route"):
        setting.chain.invoke("broken")

    assert setting.counted("retrieval_failed") == 1


@pytest.mark.parametrize(
    ("found", "named"),
    [("a text", "str"), ({"documents": []}, "dict"), (7, "int"), (Document("bare"), "Document"),
     ([None], "NoneType"), ([Document("nine"), [Document("nested")]], "list"),
     ([(Document("nine"), 0.9)], "tuple"), ([{"score": 0.9}], "dict"), ([Exits()], "SystemExit")],
    ids=range(9),
)  # fmt: skip
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_retriever_that_returns_no_documents_has_failed(
    way: Any, found: Any, named: str
) -> None:
    abstaining = Setting(retriever=lambda question: found)
    raising = Setting(retriever=lambda question: found, on_retriever_error="raise")

    [answer] = await way(abstaining.chain, ("q",))

    assert answer.decision.reason is Reason.INVALID_PASSAGES
    assert abstaining.counted("invalid_passages") == 1
    with pytest.raises(RetrievalError, match=named):
        await way(raising.chain, ("q",))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_documents_without_an_end_are_read_as_far_as_the_limit(way: Any) -> None:
    setting = Setting(
        retriever=lambda question: itertools.repeat(Document("grounded")),
        limits=InputLimits(passages=5),
    )

    [answer] = await way(setting.chain, ("q",))

    assert answer.decision.reason is Reason.INPUT_TOO_LARGE
    assert setting.counted("input_too_large") == 1


def test_none_from_a_retriever_counts_as_nothing_retrieved() -> None:
    setting = Setting(retriever=RunnableLambda(lambda question: None))

    assert setting.chain.invoke("q").decision.reason is Reason.NOTHING_RETRIEVED


def test_a_batch_of_a_retriever_that_fails_as_a_whole_abstains_for_all() -> None:
    class Stubborn(RunnableLambda[Any, Any]):
        def batch(self, *args: Any, **kwargs: Any) -> list[Any]:
            raise OSError("no batches")

    setting = Setting(retriever=Stubborn(lambda question: []))

    answers = setting.chain.batch(["one", "two"])

    assert [a.decision.reason for a in answers] == [Reason.RETRIEVAL_FAILED] * 2


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_model_that_breaks_in_mid_stream_raises_after_what_it_said(
    asynchronous: bool,
) -> None:
    handler = RunsHandler()
    setting = Setting()
    setting.context_model.speak = lambda prompt: "one two three"
    setting.context_model.fails_at_chunk = 3
    config: Any = {"callbacks": [handler]}
    seen: list[str] = []

    async def read() -> None:
        if asynchronous:
            async for chunk in setting.chain.astream("grounded", config):
                seen.append(chunk.answer)  # noqa: PERF401 - kept as far as it got
        else:
            seen.extend(chunk.answer for chunk in setting.chain.stream("grounded", config))

    with pytest.raises(ConnectionResetError):
        await read()

    assert seen == ["", "one", " ", "two"]
    assert any(isinstance(error, ConnectionResetError) for error in handler.errors)


def test_what_the_model_raises_is_raised_as_it_is_and_can_be_retried() -> None:
    calls: list[int] = []

    def flaky(inputs: Any) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ConnectionError("gone")
        return "said"

    failing = Setting(with_context=RunnableLambda(flaky))
    with pytest.raises(ConnectionError, match="gone"):
        failing.chain.invoke("grounded")
    calls.clear()
    retried = Setting(with_context=RunnableLambda(flaky).with_retry(wait_exponential_jitter=False))

    assert retried.chain.invoke("grounded").answer == "said"


def endless() -> tuple[Setting, asyncio.Event]:
    """A chain whose model never ends its reply, and whether that was closed."""
    closed = asyncio.Event()

    async def words(inputs: AsyncIterator[Any]) -> AsyncIterator[str]:
        try:
            while True:
                yield "word "
                await asyncio.sleep(0)
        finally:
            closed.set()

    return Setting(with_context=RunnableGenerator(words)), closed


async def test_a_cancelled_stream_leaves_no_task_and_closes_the_models_stream() -> None:
    setting, closed = endless()
    started = asyncio.Event()

    async def consume() -> None:
        async for chunk in setting.chain.astream("grounded"):
            if chunk.answer:
                started.set()

    before = asyncio.all_tasks()
    task = asyncio.create_task(consume())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(closed.wait(), 60)
    await auntil(lambda: asyncio.all_tasks() == before)


async def test_a_stream_that_is_no_longer_read_closes_the_models_stream() -> None:
    setting, closed = endless()
    stream = setting.chain.astream("grounded")

    async for chunk in stream:
        if chunk.answer:
            break
    await stream.aclose()  # type: ignore[attr-defined]

    assert closed.is_set()
