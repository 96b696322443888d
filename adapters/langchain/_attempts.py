"""Bounded attempts at one call, and the typed error when none succeeds."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from langchain_core.exceptions import ContextOverflowError
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

from ...guard import (
    InputError,
    KnowgateError,
    LanguageModelError,
    LanguageModelTimeoutError,
    PromptTooLongError,
)
from ...guard._deadline import AllWorkersBusyError
from ...guard._transient import is_timeout, is_transient

_LONGEST_WAIT = 8.0


@dataclass(frozen=True, slots=True)
class Attempts:
    """How often a call is tried, with exponential and jittered waits in between.

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
