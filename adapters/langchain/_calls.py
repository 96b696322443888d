"""A chat model's identity, and attempts, draws and token counts of its calls."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AIMessage
from langchain_core.rate_limiters import BaseRateLimiter
from langchain_core.runnables import Runnable, RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    wait_exponential,
    wait_random,
)

from ...guard.contracts import Generation, PartialGenerationsError
from ...guard.errors import (
    AllWorkersBusyError,
    KnowgateError,
    LanguageModelError,
    LanguageModelTimeoutError,
    PromptTooLongError,
    is_transient,
    seconds_to_wait,
)
from ...guard.files import json_sha256
from ...guard.read_models import CheckedSettings, Count

_Result = TypeVar("_Result")

# `nostream` keeps LangGraph from showing samples, or a rewritten question, as if they were the
# answer.
TAGS = ("knowgate", "nostream")
_LONGEST_WAIT = 8.0
# A server that asks for a longer wait is not asked again.
_LONGEST_RETRY_AFTER = 60.0


@checked_dataclass(
    frozen=True, config=ConfigDict(arbitrary_types_allowed=True, strict=True, extra="forbid")
)
class ChatLimits(CheckedSettings):
    """How calls of a chat model are bounded and repeated.

    Attributes:
        max_concurrency: calls under way at once, over all threads and event loops
            that use one `ChatModelLM` (per event loop for async calls).
        timeout: seconds per call, None for no deadline. A sync call that misses it
            is left behind on a daemon thread.
        max_attempts: attempts per call, the first one counted. By default 3, or 1 for a
            model whose client repeats calls by itself (`max_retries` is not 0).
        first_wait: seconds before the second attempt; later waits double, and vary. A
            server's `Retry-After` is waited for, up to a minute.
        retry_on: further exceptions after which to try again.
        rate_limiter: LangChain's limiter, asked before every attempt; the time that
            takes is not counted as the call's own. It is never set on the model; one
            that the model has itself applies as well.

    Raises:
        InputError: a limit is out of range.
    """

    max_concurrency: Count = 8
    timeout: Annotated[float, Field(gt=0)] | None = 30.0
    max_attempts: Count | None = None
    first_wait: Annotated[float, Field(ge=0)] = 0.25
    retry_on: Annotated[tuple[type[Exception], ...], Field(strict=False)] = ()
    rate_limiter: BaseRateLimiter | None = None


async def in_attempts(
    attempt: Callable[[], Awaitable[_Result]],
    ended: threading.Event | asyncio.Event,
    *,
    model: str,
    limits: ChatLimits,
    most: int,
) -> _Result:
    """Call `attempt` until it succeeds, with exponential and jittered waits in between.

    As much as the wait again is added at random, so that callers do not come back all at once.

    Args:
        attempt: one call.
        ended: gives up early once it is set.
        model: class name of the model, for messages.
        limits: waits, and what is worth another attempt.
        most: attempts altogether.

    Raises:
        LanguageModelError: it failed; typed by what went wrong.
    """
    first = limits.first_wait
    backoff = wait_exponential(first, _LONGEST_WAIT) + wait_random(0, first)

    async def sleep(seconds: float) -> None:
        if isinstance(ended, threading.Event):
            ended.wait(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        return max(backoff(state), retry_after(error) or 0.0)

    def worth_another(error: BaseException) -> bool:
        if (retry_after(error) or 0.0) > _LONGEST_RETRY_AFTER:
            return False
        return isinstance(error, limits.retry_on) or is_transient(error)

    attempts = AsyncRetrying(
        stop=lambda state: state.attempt_number >= most or ended.is_set(),
        sleep=sleep,
        wait=wait,
        retry=retry_if_exception(worth_another),
        reraise=True,
    )
    try:
        return await attempts(attempt)
    except KnowgateError:
        raise
    except Exception as error:
        raise _typed(error, model, limits.timeout) from error


def _typed(error: Exception, model: str, seconds: float | None) -> LanguageModelError:
    # Messages name types and numbers only: a provider's message may quote the prompt.
    if isinstance(error, AllWorkersBusyError):
        return LanguageModelError(f"{model}: too many earlier calls are still stuck")
    if isinstance(error, ContextOverflowError):
        return PromptTooLongError(f"{model}: the prompt is too long for it")
    if LanguageModelTimeoutError.describes(error):
        within = "" if seconds is None else f" within {seconds:g} s"
        return LanguageModelTimeoutError(f"{model} did not answer{within}")
    return LanguageModelError(f"{model} raised {type(error).__name__}")


def retry_after(error: BaseException | None) -> float | None:
    """Seconds that a server asks to wait before the next attempt; None where it does not say.

    Read from the headers `retry-after-ms` and `retry-after` (seconds, or a date) of the
    response that the error carries.
    """
    while error is not None:
        headers = getattr(getattr(error, "response", None), "headers", None)
        if isinstance(headers, Mapping):
            for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
                if (seconds := seconds_to_wait(headers.get(name, ""))) is not None:
                    return seconds * unit
            return None
        error = error.__cause__
    return None


# So many calls in a row, each after all its attempts, and the provider is down.
_OUTAGE = 3


class Draws:
    """Bookkeeping for `n` draws to each of several prompts; for many threads.

    A failed draw ends its prompt: no further draw or attempt is begun for it, while
    calls under way may still arrive. Other prompts go on, unless the provider is down.

    Args:
        n: draws for each prompt.
        ended: one flag per prompt, set once nothing more is to be begun for it.
    """

    def __init__(self, n: int, ended: Sequence[threading.Event | asyncio.Event]) -> None:
        self._lock = threading.Lock()
        self._arrived: list[list[Generation | None]] = [[None] * n for _ in ended]
        self._errors: list[LanguageModelError | None] = [None] * len(ended)
        self._in_a_row = 0
        self._ended = ended

    def arrive(self, prompt: int, draw: int, generation: Generation) -> None:
        """Record an answer."""
        with self._lock:
            self._arrived[prompt][draw] = generation
            self._in_a_row = 0

    def fail(self, prompt: int, error: LanguageModelError) -> None:
        """Record that a draw finally failed; the prompt's first error is kept."""
        with self._lock:
            ended = [prompt]
            if not self._ended[prompt].is_set():
                outage = error.__cause__ is not None and is_transient(error.__cause__)
                self._in_a_row = self._in_a_row + 1 if outage else 0
                if self._in_a_row >= _OUTAGE:
                    ended = list(range(len(self._ended)))
            for index in ended:
                if self._errors[index] is None and not self._complete(index):
                    self._errors[index] = error
                self._ended[index].set()

    def end(self) -> None:
        """Start nothing more, even if draws are missing."""
        with self._lock:
            for flag in self._ended:
                flag.set()

    def rows(self) -> list[list[Generation]]:
        """The generations by prompt, once all calls have ended.

        Raises:
            PartialGenerationsError: some are missing; has what arrived.
            LanguageModelError: nothing arrived for the only prompt; typed by why.
        """
        with self._lock:
            rows = [[found for found in row if found is not None] for row in self._arrived]
            errors = [
                None if self._complete(index) else error for index, error in enumerate(self._errors)
            ]
        first = next((error for error in errors if error is not None), None)
        if first is None:
            return rows
        if len(rows) == 1 and not rows[0]:
            raise first
        raise PartialGenerationsError(str(first), rows, errors) from first

    def _complete(self, prompt: int) -> bool:
        return None not in self._arrived[prompt]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """What the calls of a `ChatModelLM` have used so far.

    Attributes:
        calls: attempts made, failed and repeated ones included.
        metered_calls: those of them whose reply said how many tokens it used; the
            token counts speak of them alone.
        input_tokens: of the prompts.
        output_tokens: of the replies.
    """

    calls: int = 0
    metered_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def tokens_of(reply: object) -> dict[str, int]:
    """Count the tokens of one request; nothing where its reply does not name them."""
    usage = reply.usage_metadata if isinstance(reply, AIMessage) else None
    # LangChain puts this into replies that its cache answers: nothing was used.
    if not isinstance(usage, Mapping) or usage.get("total_cost") == 0:
        return {}
    read, written = usage.get("input_tokens"), usage.get("output_tokens")
    if not isinstance(read, int) or not isinstance(written, int):
        return {}
    return {"metered_calls": 1, "input_tokens": read, "output_tokens": written}


# Names under which models keep what they are and how they decode.
_TELLING = (
    "model", "model_name", "model_id", "deployment_name", "temperature", "top_p", "top_k",
    "max_tokens", "max_output_tokens", "seed", "stop",
)  # fmt: skip
# Secrets, addresses, and what changes how a reply is sent but never what it says.
_UNTOLD = re.compile(
    r"key|secret|token(?!s|iz)|password|credential|auth|header|cookie|url|uri|endpoint|proxy"
    r"|base|client|callback|cache|user|organi[sz]ation|project|metadata|tags"
    r"|stream|timeout|retr(?:y|ies)|rate_limit|concurrency|verbose|logprobs|^n$",
    re.IGNORECASE,
)
# Names of a model, which a folder's path may be.
_NAMES = ("model", "model_name", "model_id")


def model_fingerprint(model: Runnable[Any, Any], settings: Mapping[str, Any]) -> str:
    """Class name and hash of a model and the settings it is called with.

    Only what can change answers takes part: neither secrets nor addresses, timeouts,
    callbacks or streaming. A model that has a `fingerprint` itself, as local models have
    of their weights, is identified by that and not by its name, which may be a path.
    """
    described = {"model": _described(model), "settings": _plain(settings)}
    return f"{class_name(model)}-{json_sha256(described)[:16]}"


def _described(model: Runnable[Any, Any]) -> Any:
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    if isinstance(model, RunnableBindingBase):
        return [kind, _plain(model.kwargs), _described(model.bound)]
    if isinstance(model, RunnableSequence):
        return [kind, *(_described(step) for step in model.steps)]
    found = {name: getattr(model, name) for name in _TELLING if hasattr(model, name)}
    if isinstance(model, BaseLanguageModel):
        found.update(model._identifying_params)
    else:
        found["name"] = model.get_name()
    own = getattr(model, "fingerprint", None)
    if isinstance(own, str):
        found = {name: value for name, value in found.items() if name not in _NAMES}
        found["weights"] = own
    return [kind, _plain(found)]


def _plain(value: Any) -> Any:
    """The part of `value` that JSON can hold and that may enter a fingerprint."""
    if isinstance(value, Mapping):
        named = ((str(key), held) for key, held in value.items())
        told = {key: _plain(held) for key, held in named if not _UNTOLD.search(key)}
        return {key: held for key, held in told.items() if held is not None}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if isinstance(value, str | int | float | bool):
        return value
    return None


def class_name(model: Runnable[Any, Any]) -> str:
    """Name of the model's class, looked up through its bindings."""
    while isinstance(model, RunnableBindingBase):
        model = model.bound
    return type(model).__name__


def each_model(
    model: Runnable[Any, Any], change: Callable[[BaseLanguageModel[Any]], BaseLanguageModel[Any]]
) -> Runnable[Any, Any]:
    """`model` with its language models changed, in bindings, sequences and fallbacks too.

    The caller's model is never changed; without a change it is `model` itself."""
    if isinstance(model, BaseLanguageModel):
        return change(model)
    if isinstance(model, RunnableBindingBase):
        bound = each_model(model.bound, change)
        return model if bound is model.bound else model.model_copy(update={"bound": bound})
    if isinstance(model, RunnableSequence):
        steps = [each_model(step, change) for step in model.steps]
        if all(new is old for new, old in zip(steps, model.steps, strict=True)):
            return model
        return RunnableSequence(*steps, name=model.name)
    if isinstance(model, RunnableWithFallbacks):
        changed = {
            "runnable": each_model(model.runnable, change),
            "fallbacks": [each_model(one, change) for one in model.fallbacks],
        }
        return model.model_copy(update=changed)
    return model
