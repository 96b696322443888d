"""Running blocking calls under a deadline.

Python cannot stop a thread, so a call that outlives its deadline is left behind
on a daemon thread. The number of threads is bounded: when all of them are
stuck, further calls are refused at once instead of queueing behind the dead.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlineExceededError(Exception):
    """The call was still running at its deadline."""


class AllWorkersBusyError(Exception):
    """Every worker thread is occupied and no further one may be started."""


class _Worker:
    """A daemon thread that runs one task at a time and then goes idle."""

    def __init__(self, idle: list[_Worker], lock: threading.Lock) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._idle, self._lock = idle, lock
        threading.Thread(target=self._loop, name="knowgate-signal", daemon=True).start()

    def submit(self, future: Future[Any], task: Callable[[], Any]) -> None:
        self._tasks.put((future, task))

    def _loop(self) -> None:
        while True:
            future, task = self._tasks.get()
            result: Any = None
            failure: BaseException | None = None
            if future.set_running_or_notify_cancel():
                try:
                    result = task()
                except BaseException as error:  # noqa: BLE001 - handed to the waiting caller
                    failure = error
            # Idle before the caller wakes up, so that it finds this thread again.
            with self._lock:
                self._idle.append(self)
            if future.cancelled():
                continue
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)
            del future, task, result, failure


class DeadlineRunner:
    """A bounded set of daemon threads for calls with deadlines.

    Args:
        max_workers: most calls under way at once, stuck ones included.
    """

    def __init__(self, max_workers: int = 64) -> None:
        self._max_workers = max_workers
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._started = 0

    def submit(self, task: Callable[[], T]) -> Future[T]:
        """Start `task` on a thread.

        Raises:
            AllWorkersBusyError: `max_workers` calls are under way already.
        """
        with self._lock:
            if self._idle:
                worker = self._idle.pop()
            elif self._started < self._max_workers:
                self._started += 1
                worker = _Worker(self._idle, self._lock)
            else:
                raise AllWorkersBusyError
        future: Future[T] = Future()
        context = contextvars.copy_context()
        worker.submit(future, lambda: context.run(task))
        return future

    def call(self, task: Callable[[], T], seconds: float | None) -> T:
        """The result of `task`, waited for at most `seconds` (None: no limit).

        Raises:
            DeadlineExceededError: it was not done in time.
            AllWorkersBusyError: as `submit`.
        """
        if seconds is None:
            return task()
        future = self.submit(task)
        try:
            return future.result(timeout=seconds)
        except FutureTimeoutError:
            if future.done():  # done this very moment, or the task itself raised TimeoutError
                return future.result()
            raise DeadlineExceededError from None

    async def acall(self, task: Callable[[], T], seconds: float | None) -> T:
        """As `call`, without blocking the event loop."""
        future = asyncio.wrap_future(self.submit(task))
        done, _ = await asyncio.wait({future}, timeout=seconds)
        if not done:
            # Cancelled, so that a late failure is dropped and not logged with its text.
            future.cancel()
            raise DeadlineExceededError
        return future.result()
