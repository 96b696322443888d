"""Several attempts at one call: spaced out by the rate, each with its deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from ...guard import InputError, LanguageModelError, LanguageModelTimeoutError
from ...guard._deadline import DeadlineExceededError, asked_to_stop, within
from ...guard._transient import is_transient
from ._rate_limit import RateLimit

_LONGEST_WAIT = 60.0

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class AttemptRules:
    """How often a call is tried, with exponential and jittered waits in between.

    Args:
        timeout: seconds per attempt, None for no limit.
        most: attempts altogether, at least 1.
        first_wait: seconds before the second attempt, doubled from there up to a minute;
            up to as much as `first_wait` is added at random, so that calls do not come
            back all at once.
        retry_on: exceptions worth another attempt besides those that may pass by
            themselves: missed deadlines, connection errors, retryable HTTP statuses.

    Raises:
        InputError: an argument is out of range.
    """

    timeout: float | None
    most: int
    first_wait: float
    retry_on: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        if self.most < 1:
            raise InputError("must be at least 1", where="max_attempts")
        if self.timeout is not None and not self.timeout > 0:
            raise InputError("must be positive seconds or None", where="timeout")
        if not self.first_wait >= 0:
            raise InputError("must not be negative", where="first_wait")

    async def run(self, attempt: Callable[[], Awaitable[_Result]], rate: RateLimit) -> _Result:
        """The result of the first attempt that succeeds.

        Raises:
            LanguageModelTimeoutError: the last attempt took too long.
            Exception: what the last attempt raised.
        """

        async def timed() -> _Result:
            await rate.wait()
            return await self._within_deadline(attempt)

        if self.most == 1:
            return await timed()
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.most),
            wait=wait_exponential(self.first_wait, _LONGEST_WAIT) + wait_random(0, self.first_wait),
            retry=retry_if_exception(self._worth_another),
            reraise=True,
        )
        return await retrying(timed)

    async def _within_deadline(self, attempt: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            return await within(attempt(), self.timeout)
        except DeadlineExceededError as error:
            raise LanguageModelTimeoutError(f"no answer within {self.timeout:g} s") from error
        except asyncio.CancelledError as error:
            if asked_to_stop():
                raise
            # A client library cancelled a task of its own; this run goes on.
            raise LanguageModelError("the call was cancelled from within") from error

    def _worth_another(self, error: BaseException) -> bool:
        return isinstance(error, self.retry_on) or may_pass(error)


def may_pass(error: BaseException) -> bool:
    """Whether trying again may help, by type and status of the error alone."""
    return is_transient(error)
