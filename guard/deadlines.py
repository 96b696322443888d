"""Run blocking calls under a deadline, on a bounded pool of worker threads.

Python cannot stop a thread, so a call that exceeds its deadline is left behind on a
daemon thread. The number of threads is bounded. A call that finds all of them busy
waits for one within its own deadline; when all of them are stuck,
further calls are rejected immediately instead of waiting.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from queue import SimpleQueue
from typing import Any, TypeVar

from ._deadline_errors import AllWorkersBusyError, DeadlineExceededError, TaskBrokeOffError

__all__ = [
    "AllWorkersBusyError",
    "DeadlineExceededError",
    "DeadlineRunner",
    "asked_to_stop",
    "within",
]

T = TypeVar("T")


class _Call:
    """One call handed to a worker thread.

    The future always ends with a pair (value, failure), never with an exception:
    asyncio cannot carry every exception, and logs those that nobody fetched
    together with their text.
    """

    __slots__ = ("abandoned", "finished", "future", "queued", "task")

    def __init__(self, task: Callable[[], Any]) -> None:
        self.task = task
        self.future: Future[tuple[Any, Exception | None]] = Future()
        self.queued = False  # behind other calls, when it was handed over
        self.finished = False
        self.abandoned = False


class _Pool:
    """The threads of one runner and what they share.

    Threads refer to the pool alone, so that a runner that nobody uses any more
    is collected and can end them.
    """

    def __init__(self, max_workers: int) -> None:
        self._max_workers = max_workers
        self._lock = threading.Lock()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads = 0
        self._free = 0  # idle threads less waiting calls
        self._overdue = 0  # threads on a call that its caller has given up

    def start(self, task: Callable[[], Any]) -> _Call:
        """Hand `task` to a thread, or queue it for the next free one.

        Raises:
            AllWorkersBusyError: every thread is stuck, or none can be started.
        """
        call = _Call(task)
        with self._lock:
            if self._overdue >= self._max_workers:
                raise AllWorkersBusyError
            if self._free <= 0 and self._threads < self._max_workers:
                self._add_thread()
            self._free -= 1
            call.queued = self._free < 0
        self._calls.put(call)
        return call

    def abandon(self, call: _Call) -> None:
        """Record that nobody waits for `call` any more; it is not started if it was not yet."""
        if call.future.cancel():
            return
        with self._lock:
            if not call.finished and not call.abandoned:
                call.abandoned = True
                self._overdue += 1

    def end(self) -> None:
        """End every thread after its current call."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _add_thread(self) -> None:
        try:
            threading.Thread(target=self._work, name="knowgate-signal", daemon=True).start()
        except RuntimeError:  # the process may not have more threads
            if self._threads == 0:
                raise AllWorkersBusyError from None
            return
        self._threads += 1
        self._free += 1

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            self._perform(call)
            del call  # an idle thread must not keep the last question alive

    def _perform(self, call: _Call) -> None:
        outcome: tuple[Any, Exception | None] | None = None
        if call.future.set_running_or_notify_cancel():
            outcome = _outcome(call.task)
        # Free before the caller wakes up, so that it finds this thread again.
        with self._lock:
            self._free += 1
            call.finished = outcome is not None
            if call.abandoned:
                self._overdue -= 1
        if outcome is not None:
            call.future.set_result(outcome)


class DeadlineRunner:
    """A bounded pool of daemon threads for calls with deadlines.

    Threads are started when they are needed, used again, and end with the runner.

    Args:
        max_workers: most calls under way at once, stuck ones included.
    """

    def __init__(self, max_workers: int = 64) -> None:
        self._max_workers = max_workers
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._pool = _Pool(self._max_workers)
        weakref.finalize(self, self._pool.end).atexit = False

    def _start(self, task: Callable[[], T]) -> tuple[_Pool, _Call]:
        if self._pid != os.getpid():
            self._begin()  # a forked process inherits the counts, but none of the threads
        context = contextvars.copy_context()
        return self._pool, self._pool.start(lambda: context.run(task))

    def call(self, task: Callable[[], T], seconds: float | None) -> T:
        """The result of `task`, waited for at most `seconds` (None: no limit).

        Without a limit it runs on the caller's own thread.

        Raises:
            DeadlineExceededError: it was not done in time.
            AllWorkersBusyError: every thread is stuck or was busy all the time.
        """
        if seconds is None:
            return task()
        pool, call = self._start(task)
        try:
            outcome = call.future.result(timeout=min(seconds, threading.TIMEOUT_MAX))
        except FutureTimeoutError:
            pool.abandon(call)
            if not call.finished:
                raise _late(call) from None
            outcome = call.future.result()  # done this very moment
        except BaseException:
            pool.abandon(call)
            raise
        result: T = _unwrapped(outcome)
        return result

    async def acall(self, task: Callable[[], T], seconds: float | None) -> T:
        """As `call`, without blocking the event loop; always on another thread."""
        pool, call = self._start(task)
        waiter = asyncio.wrap_future(call.future)
        try:
            done, _ = await asyncio.wait({waiter}, timeout=seconds)
        except BaseException:  # cancelled: the thread's late result must find no one waiting
            pool.abandon(call)
            waiter.cancel()
            raise
        if not done:
            pool.abandon(call)
            waiter.cancel()
            raise _late(call)
        result: T = _unwrapped(waiter.result())
        return result


def _late(call: _Call) -> Exception:
    never_begun = call.future.cancelled()
    return AllWorkersBusyError() if never_begun and call.queued else DeadlineExceededError()


def _outcome(task: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return task(), None
    except BaseException as error:  # noqa: BLE001 - must end neither this thread nor the caller
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            return None, error
        broken_off = TaskBrokeOffError(type(error).__name__)
        broken_off.__cause__ = error
        return None, broken_off


def _unwrapped(outcome: tuple[Any, Exception | None]) -> Any:
    value, failure = outcome
    if failure is not None:
        try:
            raise failure
        finally:
            del failure, outcome  # or the traceback would keep itself alive
    return value


async def within(awaitable: Awaitable[T], seconds: float | None) -> T:
    """The result of `awaitable`, waited for at most `seconds` (None: no limit).

    Raises:
        DeadlineExceededError: it was not done in time, and is cancelled.
    """
    try:
        async with asyncio.timeout(seconds) as scope:
            return await awaitable
    except TimeoutError:
        if scope.expired():
            raise DeadlineExceededError from None
        raise


def asked_to_stop() -> bool:
    """Return whether the current task was asked to cancel, rather than a call inside it."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
