"""Calls that block, for a runner that must not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ...guard._deadline import DeadlineRunner

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_threads(
    call: Callable[[_Item], _Result], *, max_threads: int = 64
) -> Callable[[_Item], Awaitable[_Result]]:
    """A call that blocks, as one that can be awaited.

    Python cannot stop a thread: a call that outlives its deadline, or the run, is
    left behind on a daemon thread, which does not keep the process from exiting.

    Args:
        call: runs on threads, several at once.
        max_threads: most calls under way, those left behind included; at least the
            run's `max_concurrency`, or calls wait for a thread within their deadline.

    Example:
        >>> import asyncio, time
        >>> def slow(item: int) -> int:
        ...     time.sleep(0.01)
        ...     return item + 1
        >>> asyncio.run(in_threads(slow)(1))
        2
    """
    threads = DeadlineRunner(max_threads)

    async def awaited(item: _Item) -> _Result:
        return await threads.acall(lambda: call(item), None)

    return awaited
