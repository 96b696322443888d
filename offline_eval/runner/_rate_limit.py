"""At most so many calls a second, evenly spaced, for all calls of a run together."""

from __future__ import annotations

import asyncio

from ...guard import InputError


class RateLimit:
    """A token bucket that holds one token: no burst, whatever came before.

    Who comes gets the next free moment at once and sleeps until then, so that calls
    go out in the order in which they came.

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

    async def wait(self) -> None:
        """Return when the next call may go out."""
        if not self._interval:
            return
        now = asyncio.get_running_loop().time()
        turn = max(now, self._next)
        self._next = turn + self._interval
        if turn > now:
            await asyncio.sleep(turn - now)
