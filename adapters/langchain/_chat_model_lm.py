"""A LangChain chat model as the guard's language model."""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel, BaseLanguageModel, SimpleChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from langchain_core.runnables.base import RunnableLike, coerce_to_runnable

from ...guard.contracts import Generation
from ...guard.deadlines import DeadlineRunner, check_deadline, when_abandoned
from ...guard.errors import InputError, LanguageModelError
from ...guard.routing import at_once
from ._answer import GuardedAnswer
from ._calls import (
    TAGS,
    ChatLimits,
    Draws,
    TokenUsage,
    class_name,
    each_model,
    in_attempts,
    model_fingerprint,
    tokens_of,
)

GREEDY_OPTIONS: Mapping[str, Any] = MappingProxyType({"temperature": 0})
_ATTEMPTS = 3
_GIVEN_UP = "another call for the same prompt failed"


# One request: which draw of which prompt, and messages and options that the model is given.
_Call = tuple[int, int, list[BaseMessage], dict[str, Any]]


class ChatModelLM:
    """Any chat model of LangChain, to measure confidence and conflict with.

    Samples are drawn side by side, each call under its own deadline and with a
    bounded number of attempts. Retried are missed deadlines, connection errors and
    what the provider's status or LangChain's error class calls passing, never
    anything by the text of its message. The model itself is never changed: options
    go along with each call. Samples bypass LangChain's response cache, which would
    make them all alike. Where a draw fails for good, no further one is begun for its
    prompt, and those that arrived come along in the error.

    Log-probabilities are read where replies have them: set `logprobs=True` on a model that
    can give them, and many questions are settled by the greedy answer alone.

    In traces the calls are children of the run they serve, tagged `knowgate`.

    Args:
        model: a chat model, or a runnable from messages to a message or text. Options
            reach a sequence's first step only: bind them to the model inside instead.
        limits: concurrency, deadline, attempts and rate of the calls.
        greedy_options: keyword arguments of calls at temperature 0; empty for a
            model that takes none.
        sample_options: likewise above temperature 0; by default
            `{"temperature": <the temperature asked for>}`.
        seed_option: name of the keyword argument for a seed, where the model has one.
        system_prompt: goes before every prompt, as a system message.

    Raises:
        InputError: an argument is out of range.

    Example:
        >>> from langchain_core.language_models import FakeListChatModel
        >>> from knowgate.guard.signals.confidence import SampledConsistency
        >>> lm = ChatModelLM(FakeListChatModel(responses=["Paris"]))
        >>> SampledConsistency(lm).estimate("What is the capital of France?").value
        1.0
    """

    def __init__(
        self,
        model: RunnableLike[Any, Any],
        *,
        limits: ChatLimits | None = None,
        greedy_options: Mapping[str, Any] = GREEDY_OPTIONS,
        sample_options: Mapping[str, Any] | None = None,
        seed_option: str | None = None,
        system_prompt: str | None = None,
    ) -> None:
        self._limits = limits = ChatLimits() if limits is None else limits
        self._model: Runnable[Any, Any] = coerce_to_runnable(model)
        self._most = limits.max_attempts or (1 if _repeats(self._model) else _ATTEMPTS)
        self._name = class_name(self._model)
        self._greedy_options = dict(greedy_options)
        self._sample_options = None if sample_options is None else dict(sample_options)
        self._seed_option = seed_option
        self._system_prompt = system_prompt
        self._usage: Counter[str] = Counter()
        # Stuck calls keep their thread, so there are more threads than calls at once.
        self._runner = DeadlineRunner(max_workers=max(64, 4 * limits.max_concurrency))
        self._thread_room = threading.BoundedSemaphore(limits.max_concurrency)
        self._loop_rooms: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Class and hash of the model and the options, by what can change answers."""
        # Without log-probabilities estimators measure in another way.
        measured = {"with_probabilities": True} if _told(self._model, "logprobs") else {}
        return model_fingerprint(
            self._model,
            {
                **measured,
                "greedy_options": self._greedy_options,
                "sample_options": self._sample_options or {},
                "sample_temperature": self._sample_options is None,
                "system_prompt": self._system_prompt or "",
            },
        )

    @property
    def usage(self) -> TokenUsage:
        """Calls and tokens so far, over all threads and event loops."""
        with self._lock:
            return TokenUsage(**self._usage)

    def reset_usage(self) -> TokenUsage:
        """Reset the counts; returns what was counted so far."""
        with self._lock:
            usage, self._usage = self._usage, Counter()
        return TokenUsage(**usage)

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """Draw `n` answers to each prompt, side by side.

        Args:
            prompts: each becomes a user message.
            n: answers per prompt, at least 1.
            temperature: 0 for greedy answers.
            seed: of the first answer to each prompt; counts up from there.

        Returns:
            One list of `n` generations per prompt, in order; log-probabilities where
            the message's metadata has them.

        Raises:
            PartialGenerationsError: draws failed; it has those that arrived.
            LanguageModelTimeoutError: the only prompt's call missed its deadline at
                every attempt.
            LanguageModelError: its call failed; the cause is the model's own error.
        """
        model = self._for(temperature)
        calls = self._calls(prompts, n, temperature, seed)
        events = [threading.Event() for _ in prompts]
        draws = Draws(n, events)

        def draw(call: _Call) -> None:
            at_once(self._draw(model, call, draws, events[call[0]]))

        if len(calls) == 1:
            with when_abandoned(draws.end):
                draw(calls[0])
            return draws.rows()
        pool = ThreadPoolExecutor(
            max(1, min(self._limits.max_concurrency, len(calls))), "knowgate-draws"
        )
        try:
            futures = [pool.submit(contextvars.copy_context().run, draw, call) for call in calls]
            with when_abandoned(draws.end):
                wait(futures, return_when=FIRST_EXCEPTION)
            for future in futures:
                if future.done():
                    future.result()
            return draws.rows()
        finally:
            # After an interruption nobody waits for the rest: nothing more is begun.
            draws.end()
            pool.shutdown(wait=False, cancel_futures=True)

    async def agenerate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        """As `generate`, without blocking the event loop."""
        model = self._for(temperature)
        calls = self._calls(prompts, n, temperature, seed)
        events = [asyncio.Event() for _ in prompts]
        draws = Draws(n, events)
        # Calls keep their turn while they wait for another attempt, as threads of the pool
        # do: a provider that is down is then found out by a few calls, not by all.
        turns = asyncio.Semaphore(self._limits.max_concurrency)

        async def in_turn(call: _Call) -> None:
            async with turns:
                await self._draw(model, call, draws, events[call[0]])

        tasks = [asyncio.ensure_future(in_turn(call)) for call in calls]
        try:
            await asyncio.gather(*tasks)
            return draws.rows()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- one call -----------------------------------------------------------------

    async def _draw(
        self,
        model: Runnable[Any, Any],
        call: _Call,
        draws: Draws,
        ended: threading.Event | asyncio.Event,
    ) -> None:
        """Ask for one draw; in the form that the kind of `ended` says."""
        prompt, draw, _, _ = call
        limiter, is_async = self._limits.rate_limiter, isinstance(ended, asyncio.Event)

        async def attempt() -> Any:
            async with self._room(is_async=is_async):
                if ended.is_set():
                    raise LanguageModelError(_GIVEN_UP)
                if limiter is not None and not (
                    await limiter.aacquire() if is_async else limiter.acquire()
                ):
                    raise LanguageModelError("the rate limiter rejected the call")
                if ended.is_set():
                    # While it waited for its turn.
                    raise LanguageModelError(_GIVEN_UP)
                self._count(calls=1)
                return await self._ask(model, call, is_async=is_async)

        try:
            output = await in_attempts(
                attempt, ended, model=self._name, limits=self._limits, most=self._most
            )
            check_deadline()
            logprobs = token_logprobs(output) if isinstance(output, BaseMessage) else None
            draws.arrive(prompt, draw, Generation(GuardedAnswer.text_of(output), logprobs))
        except LanguageModelError as error:
            draws.fail(prompt, error)

    async def _ask(self, model: Runnable[Any, Any], call: _Call, *, is_async: bool) -> Any:
        _, _, messages, options = call

        def ask() -> Any:
            found = model.invoke(messages, _config(), **options)
            # Here, so that late replies count as well.
            self._count(**tokens_of(found))
            return found

        if not is_async:
            return self._runner.call(ask, self._limits.timeout)
        if _blocks(model):
            return await self._runner.acall(ask, self._limits.timeout)
        async with asyncio.timeout(self._limits.timeout):
            found = await model.ainvoke(messages, _config(), **options)
            self._count(**tokens_of(found))
            return found

    def _count(self, **more: int) -> None:
        with self._lock:
            self._usage.update(more)

    def _for(self, temperature: float) -> Runnable[Any, Any]:
        return each_model(self._model, _uncached) if temperature > 0 else self._model

    def _calls(
        self, prompts: Sequence[str], n: int, temperature: float, seed: int | None
    ) -> list[_Call]:
        if n < 1:
            raise InputError("must be at least 1", where="n")
        options = self._greedy_options
        if temperature > 0:
            options = {"temperature": temperature}
            if self._sample_options is not None:
                options = self._sample_options
        calls: list[_Call] = []
        system = [] if self._system_prompt is None else [SystemMessage(self._system_prompt)]
        for number, prompt in enumerate(prompts):
            messages = [*system, HumanMessage(prompt)]
            for draw in range(n):
                given = dict(options)
                if self._seed_option is not None and seed is not None:
                    given[self._seed_option] = seed + draw
                calls.append((number, draw, messages, given))
        return calls

    @asynccontextmanager
    async def _room(self, *, is_async: bool) -> AsyncIterator[None]:
        """Hold a place among the calls under way."""
        if not is_async:
            with self._thread_room:
                yield
            return
        # A semaphore belongs to the loop that first waits on it.
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._loop_rooms:
                for closed in [other for other in self._loop_rooms if other.is_closed()]:
                    del self._loop_rooms[closed]
                self._loop_rooms[loop] = asyncio.Semaphore(self._limits.max_concurrency)
            room = self._loop_rooms[loop]
        async with room:
            yield


def _config() -> RunnableConfig:
    return RunnableConfig(tags=list(TAGS), run_name="knowgate_sample")


def _blocks(model: Runnable[Any, Any]) -> bool:
    """Whether the async form of `model` only moves the sync one to a shared thread.

    Such a thread cannot be given up: stuck calls would use up the loop's executor
    and keep the program from ending.
    """
    return isinstance(model, BaseChatModel) and type(model)._agenerate in (
        BaseChatModel._agenerate,
        SimpleChatModel._agenerate,
    )


def _uncached(model: BaseLanguageModel[Any]) -> BaseLanguageModel[Any]:
    """The model itself where no cache is in use, else a copy that asks none."""
    in_use = model.cache is not False and not (model.cache is None and get_llm_cache() is None)
    return model.model_copy(update={"cache": False}) if in_use else model


def _repeats(model: Runnable[Any, Any]) -> bool:
    """Whether a client of the model repeats calls by itself."""
    found = []

    def look(one: BaseLanguageModel[Any]) -> BaseLanguageModel[Any]:
        has = "max_retries" in type(one).model_fields
        found.append(has and getattr(one, "max_retries", None) != 0)
        return one

    each_model(model, look)
    return any(found)


def _told(model: Any, option: str) -> Any:
    """What the caller set an option to, on the model or by binding it; None for nothing."""
    while isinstance(model, RunnableBinding):
        if option in model.kwargs:
            return model.kwargs[option]
        model = model.bound
    return getattr(model, option, None)


def token_logprobs(message: BaseMessage) -> tuple[float, ...] | None:
    """The natural-log token probabilities in a message's metadata, None without usable ones."""
    try:
        content = message.response_metadata["logprobs"]["content"]
        found = tuple(float(token["logprob"]) for token in content)
    except (KeyError, TypeError, ValueError):
        return None
    return found if found and all(math.isfinite(value) for value in found) else None
