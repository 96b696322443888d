"""How calls that cost money are made: how many at once, how fast, how often."""

from __future__ import annotations

import asyncio
import math
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

from ...guard.deadlines import DeadlineExceededError, asked_to_stop, within
from ...guard.errors import InputError, LanguageModelError, LanguageModelTimeoutError, is_transient

_Result = TypeVar("_Result")
_LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How calls are made; none of it changes what is asked.

    Attributes:
        max_concurrency: most items under way at once, at least 1.
        rate: most attempts per second, evenly spaced; None for no limit.
        timeout: seconds per attempt, None for no limit.
        max_attempts: per item, at least 1.
        first_wait: seconds before the second attempt, doubled from there up to a minute;
            up to as much as `first_wait` is added at random, so that calls do not come
            back all at once.
        retry_on: exceptions worth another attempt besides the transient ones: missed
            deadlines, connection errors, retryable HTTP statuses.
        stop_on: exceptions that end the run and become no row: those that every further
            call would meet, too.

    Raises:
        InputError: a number is out of range.
    """

    max_concurrency: int = 8
    rate: float | None = None
    timeout: float | None = 120.0
    max_attempts: int = 3
    first_wait: float = 0.25
    retry_on: tuple[type[Exception], ...] = ()
    stop_on: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_concurrency", "max_attempts"):
            value = getattr(self, name)
            if value < 1:
                raise InputError(f"must be at least 1, not {value}", where=name)
        for name in ("rate", "timeout"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(
                    f"must be a positive number, not {value:g}", where=name, hint="leave it out"
                )
        if not 0 <= self.first_wait < math.inf:
            raise InputError("must not be negative", where="first_wait")

    async def attempt(self, attempt: Callable[[], Awaitable[_Result]], rate: RateLimit) -> _Result:
        """Return the result of the first attempt that succeeds.

        Raises:
            LanguageModelTimeoutError: the last attempt took too long.
            Exception: what the last attempt raised.
        """

        async def timed() -> _Result:
            await rate.wait()
            return await self._within_deadline(attempt)

        if self.max_attempts == 1:
            return await timed()
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.max_attempts),
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
        return isinstance(error, self.retry_on) or is_transient(error)


class RateLimit:
    """A token bucket that holds one token: no burst, whatever came before.

    Calls start in the order in which they came. One that starts late by less than an
    interval does not delay the others, so that the rate is kept on average; after a
    longer delay, such as a blocked event loop, calls are an interval apart again.

    Args:
        per_second: calls, None for no limit.
    """

    def __init__(self, per_second: float | None) -> None:
        self._interval = 0.0 if per_second is None else 1.0 / per_second
        self._next = 0.0
        self._first_come = asyncio.Lock()

    async def wait(self) -> None:
        """Return when the next call may go out."""
        if not self._interval:
            return
        time = asyncio.get_running_loop().time
        async with self._first_come:
            if (early := self._next - time()) > 0:
                await asyncio.sleep(early)
            now = time()
            planned = self._next if now - self._next < self._interval else now
            self._next = planned + self._interval
