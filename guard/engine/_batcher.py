"""Compute the rows of several requests together, on one device that many threads share.

One worker thread owns the device. It takes whatever waits as soon as the device is free: a
request that comes alone is computed at once, and while it is computed the next batch collects
behind it. Nothing waits for a timer.

- **A bounded queue**: what it cannot take is rejected with `QueueFullError`, which a guard
  turns into the route that is configured for a signal that failed.
- **Deadlines**: a request whose deadline has passed, or that was cancelled, is dropped before
  it costs anything.
- **Failures stay apart**: if a joint batch fails, its requests are computed one by one, and
  only those that fail again fail.
- **A worker that dies is replaced**, and what it was working on is computed by the next one.
- **Fork and exit**: a forked process has a queue and a worker of its own; at exit requests
  that wait are told to end, and the worker is waited for briefly.
"""

from __future__ import annotations

import contextvars
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from .. import _process
from .._process import change_queue, end_at_exit
from ..deadlines import check_deadline, seconds_left, when_abandoned
from ..errors import AllWorkersBusyError, DeadlineExceededError, QueueFullError, TaskBrokeOffError
from ._backends import Backend, RowOutputs, WrappedBackend, begin_rows, run_rows
from ._device_batches import TOKENS_PER_BATCH, Ids

_logger = logging.getLogger("knowgate.guard")

Row = TypeVar("Row")
Result = TypeVar("Result")

MOST_WAITING = 8_192


class _Request(Generic[Row, Result]):
    """The rows of one caller, who waits for all of them.

    Attributes:
        rows: what is to be computed.
        begun: how many rows, from the first, have been handed out.
        alone: whether it is computed apart from others, because a batch with it failed.
    """

    __slots__ = (
        "_arrived", "_context", "_error", "_first", "_results", "alone", "begun", "rows",
    )  # fmt: skip

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self.begun = 0
        self.alone = False
        self._results: list[Result] = []
        self._error: Exception | None = None
        # In which the worker finds the caller's deadline.
        self._context = contextvars.copy_context()
        self._first, self._arrived = threading.Lock(), threading.Lock()
        self._arrived.acquire()

    @property
    def done(self) -> int:
        """How many rows have results."""
        return len(self._results)

    @property
    def under_way(self) -> Sequence[Row]:
        """Rows that have been handed out and have no results yet."""
        return self.rows[self.done : self.begun]

    @property
    def ended(self) -> bool:
        """Whether the outcome is there."""
        return self._first.locked()

    def still_awaited(self) -> bool:
        """Whether the caller waits; also moves a deadline that moves with progress."""
        if self.ended:
            return False
        try:
            self._context.run(check_deadline)
        except DeadlineExceededError as error:
            self.fail(error)
        return not self.ended

    def add(self, results: Sequence[Result]) -> None:
        """Take the results of the next rows; the last ones wake the caller."""
        self._results.extend(results)
        if len(self._results) == len(self.rows) and self._first.acquire(blocking=False):
            self._arrived.release()

    def fail(self, error: Exception) -> None:
        """Wake the caller with an error, unless the outcome is there already."""
        if self._first.acquire(blocking=False):
            self._error = error
            self._arrived.release()

    def cancel(self) -> None:
        """Let it end: nobody waits any more."""
        self.fail(DeadlineExceededError())

    def wait(self) -> list[Result]:
        """The results, waited for until the caller's deadline."""
        try:
            with when_abandoned(self.cancel):
                while not self._arrived.acquire(timeout=min(seconds_left(), threading.TIMEOUT_MAX)):
                    check_deadline()
        finally:
            self.cancel()  # does nothing where the outcome is there
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self._error  # or the traceback would keep itself alive
        return self._results


class _Queue(Generic[Row, Result]):
    """What waits, and the thread that works it off.

    The thread refers to this alone, so that a batcher that nobody uses any more is collected
    and can end it.
    """

    def __init__(
        self,
        compute: Callable[[list[Row]], Sequence[Result]],
        size: Callable[[Row], int],
        most_size: int,
        most_waiting: int,
    ) -> None:
        self._compute, self._size = compute, size
        self._most_size, self._most_waiting = most_size, most_waiting
        self._pid = os.getpid()
        # Reentrant: the garbage collector may call `end` on a thread that holds it.
        self._changed = threading.Condition(threading.RLock())
        self._requests: deque[_Request[Row, Result]] = deque()
        self._rows_waiting = 0  # that have not been handed out
        self._under_way: list[_Request[Row, Result]] = []
        self._thread: threading.Thread | None = None
        self._ended = False

    def put(self, request: _Request[Row, Result]) -> None:
        """Add a request.

        Raises:
            QueueFullError: too many rows are waiting.
            AllWorkersBusyError: the process is ending, or may not have more threads.
        """
        with self._changed:
            if self._ended:
                raise AllWorkersBusyError
            if self._is_full(request):
                self._drop_ended()
            if self._is_full(request):
                _process.count("queue_full")
                raise QueueFullError
            self._require_thread()
            self._requests.append(request)
            self._waiting += len(request.rows)
            self._changed.notify()

    def end(self) -> None:
        """End the thread after its current batch."""
        if self._pid != os.getpid():  # forked: thread and lock are the parent's
            return
        with self._changed:
            self._ended = True
            self._waiting = 0
            self._changed.notify()

    def finish(self, seconds: float) -> None:
        """Do nothing: somebody waits for every request."""

    def end_at_exit(self) -> list[threading.Thread]:
        """Reject further requests, let those that wait end, and return the thread."""
        if self._pid != os.getpid() or self._thread is None:
            return []
        self.end()
        for request in [*self._requests, *self._under_way]:
            request.cancel()
        return [self._thread]

    @property
    def _waiting(self) -> int:
        """Rows that have not been handed out; every change shows in the metrics."""
        return self._rows_waiting

    @_waiting.setter
    def _waiting(self, rows: int) -> None:
        change_queue("rows", rows - self._rows_waiting)
        self._rows_waiting = rows

    def _is_full(self, request: _Request[Row, Result]) -> bool:
        # One that is larger than the whole queue is taken where nothing waits.
        waiting = self._waiting
        return waiting > 0 and waiting + len(request.rows) > self._most_waiting

    def _drop_ended(self) -> None:
        self._requests = deque(one for one in self._requests if one.still_awaited())
        self._waiting = sum(len(one.rows) - one.begun for one in self._requests)

    def _require_thread(self) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        thread = threading.Thread(target=self._work, name="knowgate-batcher", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process may not have more threads
            raise AllWorkersBusyError from None
        self._thread = thread

    # -- on the worker's thread -------------------------------------------------------

    def _work(self) -> None:
        try:
            while self._take():
                self._run()
        except BaseException as error:  # noqa: BLE001 - nothing may leave callers waiting
            self._replace_thread(error)

    def _take(self) -> bool:
        """Wait for the rows of the next batch; False where there will be none."""
        with self._changed:
            while not self._ended:
                if self._collect():
                    return True
                self._changed.wait()
        return False

    def _collect(self) -> bool:
        """Take rows in the order of requests, as many as a batch holds."""
        room, parts = self._most_size, self._under_way
        while self._requests and not (parts and self._requests[0].alone):
            request = self._requests[0]
            if not request.still_awaited():
                _process.count("dropped")
                self._waiting -= len(self._requests.popleft().rows) - request.begun
                continue
            start = stop = request.begun
            while stop < len(request.rows) and (
                (cost := self._size(request.rows[stop])) <= room or not (parts or stop > start)
            ):
                room, stop = room - cost, stop + 1
            if stop > start:
                parts.append(request)
                request.begun = stop
                self._waiting -= stop - start
            if stop < len(request.rows):
                if parts == [request]:
                    # It fills batches by itself: the others have the next one.
                    self._requests.rotate(-1)
                break
            self._requests.popleft()
            if request.alone:
                break
        return bool(parts)

    def _run(self) -> None:
        parts = self._under_way
        given = [row for request in parts for row in request.under_way]
        _process.count("batch")
        _process.count("row", len(given))
        try:
            found = self._compute(given)
            if len(found) != len(given):
                raise ValueError(f"{len(found)} results for {len(given)} rows")
        except Exception as error:  # noqa: BLE001 - the callers'
            self._fail_or_retry(error)
            return
        place = 0
        for request in parts:
            count = len(request.under_way)
            request.add(found[place : place + count])
            place += count
        # An idle thread must not keep texts alive.
        parts.clear()

    def _fail_or_retry(self, error: Exception) -> None:
        """Fail the only request of a batch, or let several be computed one by one."""
        parts, self._under_way = self._under_way, []
        if len(parts) == 1:
            parts[0].fail(error)
            return
        if parts:
            _process.count("retried_apart")
        with self._changed:
            others = (request for request in self._requests if request not in parts)
            self._requests = deque([*parts, *others])
            for request in parts:
                self._waiting += len(request.under_way)
                request.begun, request.alone = request.done, True

    def _replace_thread(self, error: BaseException) -> None:
        _process.count("worker_restarted")
        _logger.error("the thread that batches requests ended with %s", type(error).__name__)
        broken_off = TaskBrokeOffError(type(error).__name__)
        broken_off.__cause__ = error
        self._fail_or_retry(broken_off)
        with self._changed:
            self._thread = None
            if self._requests and not self._ended:
                try:
                    self._require_thread()
                except AllWorkersBusyError as busy:
                    for request in self._requests:
                        request.fail(busy)


class Batcher(Generic[Row, Result]):
    """Computes rows of several threads in joint batches, one batch at a time.

    Args:
        compute: gives one result per row, in order. A result depends on its row alone.
        size: what a row adds to the size of a batch, e.g. its word pieces.
        most_size: of one batch; a row that is larger is computed by itself.
        most_waiting: rows that may wait.
    """

    def __init__(
        self,
        compute: Callable[[list[Row]], Sequence[Result]],
        *,
        size: Callable[[Row], int],
        most_size: int = TOKENS_PER_BATCH,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._new_queue = partial(_Queue, compute, size, most_size, most_waiting)
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._queue: _Queue[Row, Result] = self._new_queue()
        weakref.finalize(self, self._queue.end).atexit = False
        end_at_exit(self._queue)

    def begin(self, rows: Sequence[Row]) -> Callable[[], list[Result]]:
        """Queue rows; other threads' rows may be computed with them.

        Returns:
            A function that waits for the results, in order, at most until the caller's
            deadline: then it raises `DeadlineExceededError`.

        Raises:
            QueueFullError: too many rows are waiting.
            DeadlineExceededError: nobody waits for the result any more.
        """
        if not rows:
            return list
        check_deadline()
        if self._pid != os.getpid():
            self._begin()  # a forked process inherits the queue, but not its thread
        request: _Request[Row, Result] = _Request(rows)
        self._queue.put(request)
        return request.wait


_IdsAndTypes = tuple[Ids, Ids | None]


class SharedBackend(WrappedBackend):
    """A backend whose rows are computed together with those of other threads.

    Where the CPU has taken over from a lost device, every thread computes its own rows, as on
    any CPU.

    Args:
        backend: on a device that is faster with larger batches.
        most_pieces: word pieces that are computed together.
        most_waiting: rows that may wait.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        most_pieces: int = TOKENS_PER_BATCH,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        super().__init__(backend)
        self._device = backend.device
        # Of the backend, not of this object, which the worker would keep alive.
        self._batcher: Batcher[_IdsAndTypes, RowOutputs] = Batcher(
            partial(_compute, backend),
            size=lambda row: len(row[0]),
            most_size=most_pieces,
            most_waiting=most_waiting,
        )

    def begin_rows(
        self, ids: Sequence[Ids], types: Sequence[Ids] | None = None
    ) -> Callable[[], list[RowOutputs]]:
        """Begin to run rows, together with those of other threads.

        Raises:
            QueueFullError: too many rows are waiting.
            DeadlineExceededError: nobody waits for the result any more.
        """
        if self._backend.device != self._device:
            return begin_rows(self._backend, ids, types)
        no_types: list[Ids | None] = [None] * len(ids)
        return self._batcher.begin(list(zip(ids, types or no_types, strict=True)))


def _compute(backend: Backend, rows: Sequence[_IdsAndTypes]) -> list[RowOutputs]:
    types = [types for _, types in rows if types is not None]
    return run_rows(backend, [ids for ids, _ in rows], types or None)
