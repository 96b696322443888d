"""A chat model as the guard's language model."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.exceptions import ContextOverflowError, ModelRateLimitError
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.runnables import RunnableLambda

from knowgate.adapters.langchain import ChatLimits, ChatModelLM
from knowgate.guard import Generation, LanguageModelError
from knowgate.guard.errors import LanguageModelTimeoutError, PromptTooLongError
from tests.adapters.langchain.fakes import StatusError, TalkingModel, collector, draw
from tests.support.deadlines import awith_enough_time


@pytest.fixture
def cache() -> Iterator[None]:
    set_llm_cache(InMemoryCache())
    yield
    set_llm_cache(None)


async def test_options_follow_the_temperature_and_can_be_left_out() -> None:
    def options(**settings: Any) -> list[dict[str, Any]]:
        model = TalkingModel(speak=lambda prompt: "said")
        lm = ChatModelLM(model, **settings)
        lm.generate(["q"])
        lm.generate(["q"], temperature=0.8, seed=5)
        return model.record.options

    assert options() == [{"temperature": 0}, {"temperature": 0.8}]
    assert options(greedy_options={}, sample_options={}) == [{}, {}]
    assert options(sample_options={"top_p": 0.9})[1] == {"top_p": 0.9}
    assert options(seed_option="seed")[1] == {"temperature": 0.8, "seed": 5}


def test_a_system_prompt_goes_before_the_prompt() -> None:
    seen: list[Any] = []

    def model(messages: list[Any]) -> str:
        seen.extend(messages)
        return "said"

    lm = ChatModelLM(model, greedy_options={}, system_prompt="Be brief.")

    assert lm.generate(["q"]) == [[Generation("said")]]
    assert isinstance(seen[0], SystemMessage)
    assert [message.text for message in seen] == ["Be brief.", "q"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_samples_do_not_come_from_a_response_cache(cache: None, asynchronous: bool) -> None:
    guesses = iter(["Paris", "Rome", "Oslo", "Bern", "Riga"])
    model = TalkingModel(speak=lambda prompt: next(guesses)).bind(stop=["\n"])
    lm = ChatModelLM(model, limits=ChatLimits(max_concurrency=1))

    greedy = [await draw(lm, asynchronous, "q") for _ in range(2)]
    [samples] = await draw(lm, asynchronous, "q", n=4, temperature=1.0)

    assert greedy[0] == greedy[1]
    assert {found.text for found in samples} == {"Rome", "Oslo", "Bern", "Riga"}


# -- what comes back ------------------------------------------------------------------


def test_log_probabilities_are_read_where_the_message_has_them() -> None:
    tokens = [{"token": "Par", "logprob": -0.5}, {"token": "is", "logprob": -0.25}]
    told = AIMessage("Paris", response_metadata={"logprobs": {"content": tokens}})
    untold = AIMessage("Paris", response_metadata={"logprobs": None})
    broken = AIMessage("Paris", response_metadata={"logprobs": {"content": [{"logprob": None}]}})

    found = [
        ChatModelLM(collector(said)[1], greedy_options={}).generate(["q"])[0][0]
        for said in (told, untold, broken)
    ]

    assert [generation.token_logprobs for generation in found] == [(-0.5, -0.25), None, None]


def test_thinking_is_no_part_of_the_answer() -> None:
    blocks: list[str | dict[Any, Any]] = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "Par"},
        {"type": "text", "text": "is"},
    ]
    lm = ChatModelLM(TalkingModel(speak=lambda prompt: AIMessage(blocks)))

    assert lm.generate(["q"])[0][0].text == "Paris"


# -- bounds ---------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_no_more_calls_are_under_way_than_allowed(asynchronous: bool) -> None:
    lock, counts = threading.Lock(), {"now": 0, "most": 0}
    crowd = threading.Barrier(3)

    def speak(prompt: str) -> str:
        with lock:
            counts["now"] += 1
            counts["most"] = max(counts["most"], counts["now"])
        crowd.wait(5)  # passes only when three calls run side by side
        with lock:
            counts["now"] -= 1
        return "said"

    lm = ChatModelLM(TalkingModel(speak=speak), limits=ChatLimits(max_concurrency=3))

    await draw(lm, asynchronous, "q", n=9, temperature=1.0)

    assert counts["most"] == 3


def test_samples_see_the_callers_context() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    user.set("ada")
    lm = ChatModelLM(TalkingModel(speak=lambda prompt: user.get()))

    [found] = lm.generate(["q"], n=3, temperature=1.0)

    assert {generation.text for generation in found} == {"ada"}


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_hung_call_ends_at_its_deadline(asynchronous: bool) -> None:
    released = threading.Event()
    lm = ChatModelLM(
        TalkingModel(speak=lambda prompt: str(released.wait(30))),
        limits=ChatLimits(timeout=0.05, max_attempts=1),
    )

    with pytest.raises(LanguageModelTimeoutError, match=r"TalkingModel .* 0.05 s"):
        await draw(lm, asynchronous, "private words", n=2, temperature=1.0)
    released.set()


async def test_a_hung_coroutine_is_cancelled_at_its_deadline() -> None:
    async def check(seconds: float) -> None:
        cancelled = asyncio.Event()

        async def hang(messages: Any) -> str:
            try:
                await asyncio.sleep(60)
            finally:
                cancelled.set()
            return "late"

        lm = ChatModelLM(
            RunnableLambda(lambda m: "", afunc=hang),
            limits=ChatLimits(timeout=seconds, max_attempts=1),
            greedy_options={},
        )

        with pytest.raises(LanguageModelTimeoutError):
            await lm.agenerate(["q"])
        assert cancelled.is_set()

    await awith_enough_time(check)


async def test_cancelling_the_caller_leaves_no_task() -> None:
    started = asyncio.Event()

    async def hang(messages: Any) -> str:
        started.set()
        await asyncio.sleep(30)
        return "late"

    lm = ChatModelLM(RunnableLambda(lambda m: "", afunc=hang), greedy_options={})
    before = asyncio.all_tasks()
    task = asyncio.create_task(lm.agenerate(["a", "b"]))
    await started.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert asyncio.all_tasks() == before


def test_one_model_serves_several_event_loops() -> None:
    lm = ChatModelLM(
        TalkingModel(speak=lambda prompt: "said"), limits=ChatLimits(max_concurrency=1)
    )

    for _ in range(3):
        rows = asyncio.run(lm.agenerate(["q"], n=3, temperature=1.0))
        assert rows == [[Generation("said")] * 3]


# -- attempts and errors ---------------------------------------------------------------


class WrappedError(Exception):
    """As clients raise what a socket raised."""

    def __init__(self) -> None:
        super().__init__("private words")
        self.__cause__ = ConnectionRefusedError("refused")


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (TimeoutError(), 3),
        (ConnectionResetError(), 3),
        (WrappedError(), 3),
        (StatusError(429), 3),
        (StatusError(401), 1),
        (ModelRateLimitError("slow down"), 3),
        (ValueError("timeout: connection reset, please retry"), 1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
async def test_only_transient_failures_are_tried_again(
    error: Exception, attempts: int, asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    calls: list[str] = []

    def speak(prompt: str) -> str:
        calls.append(prompt)
        raise error

    lm = ChatModelLM(TalkingModel(speak=speak), limits=ChatLimits(first_wait=0))
    with pytest.raises(LanguageModelError) as caught:
        await draw(lm, asynchronous, "private words")

    assert len(calls) == attempts
    assert "private" not in str(caught.value) + caplog.text
    assert type(caught.value.__cause__) is type(error)
    assert isinstance(caught.value, LanguageModelTimeoutError) == isinstance(error, TimeoutError)


def test_a_prompt_that_is_too_long_has_its_own_error() -> None:
    def speak(prompt: str) -> str:
        raise ContextOverflowError("private words")

    with pytest.raises(PromptTooLongError):
        ChatModelLM(TalkingModel(speak=speak)).generate(["q"])
