"""Calls that block, for a runner that must not."""

from __future__ import annotations

import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from ...guard.deadlines import DeadlineRunner

_P = ParamSpec("_P")
_Result = TypeVar("_Result")


class DaemonThreads(ThreadPoolExecutor):
    """An executor whose threads keep neither an event loop nor the process from ending.

    LangChain runs models without an async form on the loop's default executor. The
    usual one is joined at the end, so that Ctrl-C would wait for every answer under way.

    Args:
        max_threads: started when they are needed.
    """

    def __init__(self, max_threads: int) -> None:
        super().__init__(max_threads)  # starts none; asyncio insists on the type
        self._most = max_threads
        self._hired = 0
        self._idle = threading.Semaphore(0)
        self._tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def submit(
        self, fn: Callable[_P, _Result], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_Result]:
        """As `ThreadPoolExecutor.submit`."""
        future: Future[_Result] = Future()
        self._tasks.put(lambda: _perform(future, lambda: fn(*args, **kwargs)))
        if not self._idle.acquire(blocking=False) and self._hired < self._most:
            self._hired += 1
            threading.Thread(target=self._work, name="knowgate-calls", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for nobody."""

    def _work(self) -> None:
        while True:
            self._tasks.get()()
            self._idle.release()


def _perform(future: Future[Any], task: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = task()
    except BaseException as error:  # noqa: BLE001 - whoever waits is told
        future.set_exception(error)
    else:
        future.set_result(result)


_Item = TypeVar("_Item")


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
