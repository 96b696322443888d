"""Call the parts of a chain as children of its runs."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.exceptions import ContextOverflowError
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import patch_config
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    Retrying,
    retry_if_exception,
    sleep_using_event,
    stop_after_attempt,
    stop_when_event_set,
    wait_exponential,
    wait_random,
)

from ...guard.contracts import Generation
from ...guard.deadlines import AllWorkersBusyError
from ...guard.errors import (
    InputError,
    KnowgateError,
    LanguageModelError,
    LanguageModelTimeoutError,
    PartialGenerationsError,
    PromptTooLongError,
    is_timeout,
    is_transient,
)

RunManager = CallbackManagerForChainRun | AsyncCallbackManagerForChainRun


def child_config(config: RunnableConfig, run_manager: RunManager, part: str) -> RunnableConfig:
    """The config under which `part` runs as a child of the chain's run."""
    return patch_config(config, callbacks=run_manager.get_child(f"guarded_rag:{part}"))


def child_configs(
    configs: Sequence[RunnableConfig],
    run_managers: Sequence[RunManager],
    indices: Iterable[int],
    part: str,
) -> list[RunnableConfig]:
    """As `child_config`, for the inputs of a batch at `indices`."""
    return [child_config(configs[index], run_managers[index], part) for index in indices]


def together(
    runnable: Runnable[Any, Any], inputs: list[Any], configs: list[RunnableConfig], **kwargs: Any
) -> list[Any]:
    """One batch: outputs, or exceptions in their place."""
    try:
        return runnable.batch(inputs, configs, return_exceptions=True, **kwargs)
    except Exception as error:  # noqa: BLE001 - a batch of its own kind failed as a whole
        return [error] * len(inputs)


async def atogether(
    runnable: Runnable[Any, Any], inputs: list[Any], configs: list[RunnableConfig], **kwargs: Any
) -> list[Any]:
    """As `together`, without blocking the event loop."""
    try:
        return await runnable.abatch(inputs, configs, return_exceptions=True, **kwargs)
    except Exception as error:  # noqa: BLE001 - a batch of its own kind failed as a whole
        return [error] * len(inputs)


_LONGEST_WAIT = 8.0


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts of a call, with exponential and jittered waits in between.

    Args:
        model: class name of the model, for messages.
        timeout: seconds per attempt, for messages.
        most: attempts altogether, at least 1.
        retry_on: exceptions worth another attempt besides the transient ones.
        first_wait: seconds before the second attempt, doubled from there; as much
            again is added at random, so that callers do not come back all at once.

    Raises:
        InputError: an argument is out of range.
    """

    model: str
    timeout: float | None
    most: int
    retry_on: tuple[type[Exception], ...]
    first_wait: float

    def __post_init__(self) -> None:
        if self.most < 1:
            raise InputError("must be at least 1", where="max_attempts")
        if self.timeout is not None and not self.timeout > 0:
            raise InputError("must be positive seconds or None", where="timeout")
        if not self.first_wait >= 0:
            raise InputError("must not be negative", where="first_wait")

    def run(self, attempt: Callable[[], object], ended: threading.Event) -> object:
        """The result of `attempt`; gives up early once `ended` is set.

        Raises:
            LanguageModelError: it failed; typed by what went wrong.
        """
        stop = stop_after_attempt(self.most) | stop_when_event_set(ended)
        try:
            return Retrying(stop=stop, sleep=sleep_using_event(ended), **self._rules())(attempt)
        except Exception as error:  # noqa: BLE001 - every failure becomes a typed one
            self._fail(error)

    async def arun(self, attempt: Callable[[], Awaitable[object]], ended: asyncio.Event) -> object:
        """As `run`, without blocking the event loop; cancelling ends the attempts."""

        async def sleep(seconds: float) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await ended.wait()

        def stop(state: RetryCallState) -> bool:
            return state.attempt_number >= self.most or ended.is_set()

        try:
            return await AsyncRetrying(stop=stop, sleep=sleep, **self._rules())(attempt)
        except Exception as error:  # noqa: BLE001 - every failure becomes a typed one
            self._fail(error)

    def _rules(self) -> dict[str, Any]:
        wait = wait_exponential(self.first_wait, _LONGEST_WAIT) + wait_random(0, self.first_wait)
        return {
            "wait": wait,
            "retry": retry_if_exception(self._worth_another),
            "reraise": True,
        }

    def _worth_another(self, error: BaseException) -> bool:
        return isinstance(error, self.retry_on) or is_transient(error)

    def _fail(self, error: Exception) -> NoReturn:
        # Messages name types and numbers only: a provider's message may quote the prompt.
        if isinstance(error, KnowgateError):
            raise error
        if isinstance(error, AllWorkersBusyError):
            raise LanguageModelError(
                f"{self.model}: too many earlier calls are still stuck"
            ) from None
        if isinstance(error, ContextOverflowError):
            raise PromptTooLongError(f"{self.model}: the prompt is too long for it") from error
        if is_timeout(error):
            within = "" if self.timeout is None else f" within {self.timeout:g} s"
            raise LanguageModelTimeoutError(f"{self.model} did not answer{within}") from error
        raise LanguageModelError(f"{self.model} raised {type(error).__name__}") from error


# So many calls in a row, each after all its attempts, and the provider is down.
_OUTAGE = 3


class EndedFlag(Protocol):
    """A `threading.Event` or an `asyncio.Event`."""

    def set(self) -> object: ...

    def is_set(self) -> bool: ...


class Draws:
    """Bookkeeping for `n` draws to each of several prompts; for many threads.

    A failed draw ends its prompt: no further draw or attempt is begun for it, while
    calls under way may still arrive. Other prompts go on, unless the provider is down.

    Args:
        prompts: number of prompts.
        n: draws for each.
        ended: one flag per prompt, set once nothing more is to be begun for it.
    """

    def __init__(self, prompts: int, n: int, ended: Sequence[EndedFlag]) -> None:
        self._lock = threading.Lock()
        self._arrived: list[list[Generation | None]] = [[None] * n for _ in range(prompts)]
        self._errors: list[LanguageModelError | None] = [None] * prompts
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


def uncached(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """`model` as it is where no cache is in use, else a copy that asks none.

    Looks through bindings and sequences; the caller's model is never changed.
    """
    if isinstance(model, BaseLanguageModel):
        in_use = model.cache is not False and not (model.cache is None and get_llm_cache() is None)
        return model.model_copy(update={"cache": False}) if in_use else model
    if isinstance(model, RunnableBindingBase):
        bound = uncached(model.bound)
        return model if bound is model.bound else model.model_copy(update={"bound": bound})
    if isinstance(model, RunnableSequence):
        steps = [uncached(step) for step in model.steps]
        if all(new is old for new, old in zip(steps, model.steps, strict=True)):
            return model
        return RunnableSequence(*steps, name=model.name)
    return model


# Names under which models keep what they are and how they decode.
_TELLING = (
    "model", "model_name", "model_id", "deployment_name", "temperature", "top_p", "top_k",
    "max_tokens", "max_output_tokens", "seed", "stop",
)  # fmt: skip
# Where a value is a secret, or changes although the model stays the same.
_UNTOLD = re.compile(
    r"key|secret|token(?!s|iz)|password|credential|auth|header|cookie|url|uri|endpoint|proxy"
    r"|base|client|callback|cache|user|organi[sz]ation|project|metadata|tags",
    re.IGNORECASE,
)


def model_fingerprint(model: Runnable[Any, Any], settings: Mapping[str, Any]) -> str:
    """Class name and hash of a model and the settings it is called with.

    Keys that may hold secrets or addresses take no part, so that a new key does not
    make another model of it.
    """
    described = {"model": _described(model), "settings": _plain(settings)}
    text = json.dumps(described, sort_keys=True, ensure_ascii=True)
    return f"{class_name(model)}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def class_name(model: Runnable[Any, Any]) -> str:
    """Name of the model's class, looked up through its bindings."""
    while isinstance(model, RunnableBindingBase):
        model = model.bound
    return type(model).__name__


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
    return [kind, _plain(found)]


def _plain(value: Any) -> Any:
    """The part of `value` that JSON can hold and that may enter a fingerprint."""
    if isinstance(value, Mapping):
        told = {str(key): _plain(held) for key, held in value.items() if not _secret(key)}
        return {key: held for key, held in told.items() if held is not None}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if isinstance(value, str | int | float | bool):
        return value
    return None


def _secret(key: object) -> bool:
    return _UNTOLD.search(str(key)) is not None
