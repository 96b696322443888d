"""At most so many calls a second, evenly spaced, for all calls of a run together."""

from __future__ import annotations

import asyncio

from ...guard import InputError


class RateLimit:
    """A token bucket that holds one token: no burst, whatever came before.

    Calls go out in the order in which they came. One that goes out late by less than an
    interval does not put the others off, so that the rate is kept on average; after a
    longer delay, of an event loop that stood still say, they are an interval apart again.

    Args:
        per_second: calls, None for as many as like to.

    Raises:
        InputError: `per_second` is not positive.
    """

    def __init__(self, per_second: float | None) -> None:
        if per_second is not None and not per_second > 0:
            raise InputError("must be positive calls per second, or None", where="rate")
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
