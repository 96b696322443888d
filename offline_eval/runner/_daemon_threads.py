"""Threads that nobody waits for when a run is broken off."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

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
