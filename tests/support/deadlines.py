"""Checks of what is done within a deadline, which a busy machine may miss."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

_SECONDS = (0.05, 0.5, 5.0, 30.0)
_FAILURES = (Exception, pytest.fail.Exception)


async def auntil(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until `condition` is true, and no longer than only what hangs would take."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"not within {seconds} s"
        await asyncio.sleep(0.002)


def with_enough_time(check: Callable[[float], object]) -> None:
    """Run `check` with a short deadline, and again with a longer one each time that it fails."""
    for seconds in _SECONDS[:-1]:
        try:
            check(seconds)
        except _FAILURES:
            continue
        return
    check(_SECONDS[-1])


async def awith_enough_time(check: Callable[[float], Awaitable[object]]) -> None:
    """As `with_enough_time`, for a coroutine."""
    for seconds in _SECONDS[:-1]:
        try:
            await check(seconds)
        except _FAILURES:
            continue
        return
    await check(_SECONDS[-1])
