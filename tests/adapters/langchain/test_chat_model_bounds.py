"""A chat model's rate, its token count, and what is left when its provider fails."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.rate_limiters import BaseRateLimiter, InMemoryRateLimiter

from knowgate.adapters.langchain import ChatLimits, ChatModelLM
from knowgate.adapters.langchain._calls import TokenUsage
from knowgate.guard import InputError, LanguageModelError
from knowgate.guard.contracts import PartialGenerationsError
from knowgate.guard.signals.confidence import SampledConsistency
from tests.adapters.langchain.fakes import StatusError, TalkingModel, draw


class Counting(BaseRateLimiter):
    """Lets everything pass, and counts; refuses where told to."""

    def __init__(self, *, passes: bool = True) -> None:
        self.acquired = 0
        self._passes = passes
        self._lock = threading.Lock()

    def acquire(self, *, blocking: bool = True) -> bool:
        assert blocking
        with self._lock:
            self.acquired += 1
        return self._passes

    async def aacquire(self, *, blocking: bool = True) -> bool:
        return self.acquire(blocking=blocking)


def failing_from(call: int, error: Callable[[], Exception]) -> Callable[[str], str]:
    """Says Paris, and fails from the given call on, the first being 1."""
    lock, made = threading.Lock(), [0]

    def speak(prompt: str) -> str:
        with lock:
            made[0] += 1
            number = made[0]
        if number >= call:
            raise error()
        return "Paris"

    return speak


# -- rate ------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_the_limiter_is_asked_before_every_attempt(asynchronous: bool) -> None:
    outcomes = iter([StatusError(429), None, StatusError(503), None, None])

    def speak(prompt: str) -> str:
        if (error := next(outcomes)) is not None:
            raise error
        return "said"

    limiter = Counting()
    lm = ChatModelLM(
        TalkingModel(speak=speak),
        limits=ChatLimits(rate_limiter=limiter, max_concurrency=1, first_wait=0),
    )

    await draw(lm, asynchronous, "q", n=3, temperature=1.0)

    assert limiter.acquired == 5
    assert lm.usage.calls == 5


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_limiter_that_refuses_fails_the_call_and_not_the_model(asynchronous: bool) -> None:
    model = TalkingModel(speak=lambda prompt: "said")
    lm = ChatModelLM(model, limits=ChatLimits(rate_limiter=Counting(passes=False)))

    with pytest.raises(LanguageModelError, match="rate limiter"):
        await draw(lm, asynchronous, "q")

    assert model.record.prompts == []
    assert lm.usage == TokenUsage()


async def test_waiting_for_the_limiter_can_be_cancelled() -> None:
    limiter = InMemoryRateLimiter(requests_per_second=0.001, max_bucket_size=1)
    model = TalkingModel(speak=lambda prompt: "said")
    lm = ChatModelLM(model, limits=ChatLimits(rate_limiter=limiter))
    before = asyncio.all_tasks()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await lm.agenerate(["q"])

    assert asyncio.all_tasks() == before
    assert model.record.prompts == []


async def test_the_callers_model_stays_as_it_is_whatever_is_asked_of_it() -> None:
    model = TalkingModel(speak=failing_from(13, lambda: StatusError(500)))
    before = model.model_dump(exclude={"record", "speak"})
    lm = ChatModelLM(
        model,
        limits=ChatLimits(rate_limiter=Counting(), first_wait=0),
        seed_option="seed",
        system_prompt="Be brief.",
    )

    SampledConsistency(lm).estimate("q")
    await SampledConsistency(lm, stopping="none").aestimate("q")

    assert model.model_dump(exclude={"record", "speak"}) == before
    assert model.rate_limiter is None


# -- tokens ----------------------------------------------------------------------------


def metered(read: int, written: int) -> AIMessage:
    return AIMessage(
        "Paris",
        usage_metadata={
            "input_tokens": read,
            "output_tokens": written,
            "total_tokens": read + written,
        },
    )


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_tokens_are_counted_over_all_calls(asynchronous: bool) -> None:
    lm = ChatModelLM(
        TalkingModel(speak=lambda prompt: metered(12, 3)), limits=ChatLimits(max_concurrency=4)
    )
    assert lm.usage == TokenUsage(0, 0, 0, 0)

    await draw(lm, asynchronous, "a", "b", n=5, temperature=1.0)
    first = lm.usage
    await draw(lm, asynchronous, "c")

    assert first == TokenUsage(calls=10, metered_calls=10, input_tokens=120, output_tokens=30)
    assert lm.reset_usage() == TokenUsage(11, 11, 132, 33)
    assert lm.usage == TokenUsage()


def test_many_threads_lose_no_count() -> None:
    lm = ChatModelLM(
        TalkingModel(speak=lambda prompt: metered(1, 2)), limits=ChatLimits(max_concurrency=16)
    )
    threads = [
        threading.Thread(target=lm.generate, args=(["q"],), kwargs={"n": 25, "temperature": 1.0})
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert lm.usage == TokenUsage(200, 200, 200, 400)


# -- what is left ----------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_six_of_ten_samples_come_along_in_the_error(asynchronous: bool) -> None:
    lm = ChatModelLM(
        TalkingModel(speak=failing_from(7, lambda: StatusError(401))),
        limits=ChatLimits(max_concurrency=1),
    )

    with pytest.raises(PartialGenerationsError, match="StatusError") as caught:
        await draw(lm, asynchronous, "private words", n=10, temperature=1.0)

    [row], [error] = caught.value.generations, caught.value.errors
    assert [generation.text for generation in row] == ["Paris"] * 6
    assert isinstance(error, LanguageModelError)
    assert type(error.__cause__) is StatusError
    assert "private" not in str(caught.value)
    assert lm.usage.calls == 7  # nothing more was begun


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_decision_is_made_from_six_of_ten_samples_and_says_so(asynchronous: bool) -> None:
    lm = ChatModelLM(
        TalkingModel(speak=failing_from(8, lambda: StatusError(503))),
        limits=ChatLimits(max_concurrency=1, first_wait=0),
    )
    estimator = SampledConsistency(lm, stopping="none")

    found = await estimator.aestimate("q") if asynchronous else estimator.estimate("q")

    assert (found.samples_drawn, found.value, found.partial) == (6, 1.0, True)
    assert found.calls == 7
    assert lm.usage.calls == 7 + 3  # the eighth was tried three times


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_calls_under_way_may_still_arrive_when_one_fails(asynchronous: bool) -> None:
    under_way = threading.Barrier(4)

    def speak(prompt: str) -> str:
        if under_way.wait(5) == 0:
            raise StatusError(401)
        return "Paris"

    lm = ChatModelLM(TalkingModel(speak=speak), limits=ChatLimits(max_concurrency=4))

    with pytest.raises(PartialGenerationsError) as caught:
        await draw(lm, asynchronous, "q", n=4, temperature=1.0)

    [row] = caught.value.generations
    assert [generation.text for generation in row] == ["Paris"] * 3


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_one_prompt_that_fails_does_not_take_the_others_along(asynchronous: bool) -> None:
    def speak(prompt: str) -> str:
        if prompt.startswith("bad"):
            raise StatusError(400)
        return prompt.upper()

    lm = ChatModelLM(TalkingModel(speak=speak), limits=ChatLimits(max_concurrency=2))
    prompts = ["a", "bad 1", "b", "bad 2", "bad 3", "bad 4", "c"]

    with pytest.raises(PartialGenerationsError) as caught:
        await draw(lm, asynchronous, *prompts)

    rows = [[generation.text for generation in row] for row in caught.value.generations]
    assert rows == [["A"], [], ["B"], [], [], [], ["C"]]
    assert [error is None for error in caught.value.errors] == [row != [] for row in rows]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_provider_that_is_down_is_not_asked_for_every_prompt(asynchronous: bool) -> None:
    model = TalkingModel(speak=failing_from(3, ConnectionResetError))
    lm = ChatModelLM(model, limits=ChatLimits(max_concurrency=1, max_attempts=2, first_wait=0))

    with pytest.raises(PartialGenerationsError) as caught:
        await draw(lm, asynchronous, *(f"q{number}" for number in range(40)))

    assert [len(row) for row in caught.value.generations] == [1, 1] + [0] * 38
    assert len(model.record.prompts) == 2 + 3 * 2


# -- log-probabilities -----------------------------------------------------------------


def test_the_fingerprint_tells_models_and_options_apart_but_not_keys() -> None:
    def fingerprint(options: dict[str, Any] | None = None, **model: Any) -> str:
        return ChatModelLM(TalkingModel(speak=str, **model), sample_options=options).fingerprint

    same = fingerprint()

    assert same == fingerprint() == fingerprint(api_key="sk-another")
    assert same.startswith("TalkingModel-")
    assert len({same, fingerprint(model_name="talking-2"), fingerprint({"top_p": 0.5})}) == 3


def test_bound_parameters_count_in_the_fingerprint() -> None:
    model = TalkingModel(speak=str)

    plain = ChatModelLM(model).fingerprint
    bound = ChatModelLM(model.bind(top_p=0.5)).fingerprint
    keyed = ChatModelLM(model.bind(top_p=0.5, api_key="sk-third")).fingerprint

    assert bound.startswith("TalkingModel-")
    assert plain != bound == keyed


def test_limits_take_a_list_of_errors_and_no_unknown_keyword() -> None:
    assert ChatLimits(retry_on=[OSError]).retry_on == (OSError,)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="timout"):
        ChatLimits(timout=1.0)  # type: ignore[call-arg]
