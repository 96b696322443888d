"""Run blocking calls under a deadline, on the caller's thread or on bounded worker threads.

Python cannot stop a thread. A call that exceeds its deadline, or whose caller was cancelled,
is abandoned: its result is dropped, and it ends where it next calls `check_deadline`, which
the bundled encoders and language models do before every forward pass. What never calls it
keeps a daemon thread. The number of threads is bounded. A call that finds all of them busy
waits for one within its own deadline; when all of them are stuck, further calls are rejected
immediately. At exit calls are told to end and are waited for, at most a second.

What computes on this machine takes longer for each call, the more calls there are at once: in a
burst every one of them would miss its deadline. So a question waits for its turn, first come,
first served, and its deadline begins with its turn. The wait has a bound of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any, TypeVar

from .errors import (
    AllWorkersBusyError,
    DeadlineExceededError,
    NoTurnError,
    TaskBrokeOffError,
)
from .process import Budget, after_fork, change_queue, end_at_exit

__all__ = ["check_deadline"]

T = TypeVar("T")

_current: contextvars.ContextVar[_Call | None] = contextvars.ContextVar(
    "knowgate_call", default=None
)


def check_deadline() -> None:
    """End a call that is past its deadline or abandoned; what takes long calls this often.

    Scorers and language models of your own that run several passes call it before each.
    Outside of a call under a deadline it does nothing.

    Raises:
        DeadlineExceededError: nobody waits for the result any more.
    """
    call = _current.get()
    if call is not None:
        call.check()


def seconds_left() -> float:
    """Seconds until the deadline of the current call; infinity without one."""
    left, call = math.inf, _current.get()
    while call is not None:
        left = min(left, call.remaining)
        call = call._parent
    return left


@contextmanager
def when_abandoned(callback: Callable[[], object]) -> Iterator[None]:
    """Call `callback` if the current call is abandoned within the block.

    For what waits where it cannot call `check_deadline`; it may run on any thread, twice.
    """
    call = _current.get()
    if call is None:
        yield
        return
    call.on_abandon.append(callback)
    try:
        if call.abandoned:
            callback()
        yield
    finally:
        call.on_abandon.remove(callback)


class _Call:
    """One call under a deadline, on the caller's thread or handed to a worker.

    Args:
        seconds: until its deadline; None for no limit.
        task: what a worker thread does; None for a call on the caller's own.

    Attributes:
        arrived: of a worker's, its outcome, a pair (value, failure) and never an exception, since
            asyncio cannot carry every one. The first outcome counts.
        queued: whether it was behind other calls when it was handed over.
        overdue: whether it is running, although nobody waits for it.
    """

    def __init__(self, seconds: float | None, task: Any = None) -> None:
        self._parent, self.task = _current.get(), task
        self.ends = math.inf if seconds is None else time.monotonic() + seconds
        self.on_abandon: list[Callable[[], object]] = []
        self.abandoned = self.queued = self.begun = self.overdue = False
        if task is not None:
            self.arrived: Future[tuple[Any, Exception | None]] = Future()

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, at least 0."""
        return max(0.0, self.ends - time.monotonic())

    def check(self) -> None:
        """Raise `DeadlineExceededError` past the deadline of this call or of one around it."""
        now = time.monotonic()
        call: _Call | None = self
        while call is not None:
            if call.abandoned or now > call.ends:
                raise DeadlineExceededError
            call = call._parent

    def abandon(self) -> None:
        """Let it end at its next check, and wake whoever still waits for it."""
        self.abandoned = True
        for callback in list(self.on_abandon):
            callback()
        if self.task is not None:
            self.arrive(None, DeadlineExceededError())

    def arrive(self, value: Any, failure: Exception | None) -> None:
        """Take the first outcome; what comes after it, or after the deadline, is dropped."""
        if failure is None and time.monotonic() > self.ends:
            value, failure = None, DeadlineExceededError()
        with suppress(InvalidStateError):
            self.arrived.set_result((value, failure))

    def wait(self) -> bool:
        """Wait for the outcome; False at the deadline."""
        with suppress(TimeoutError):
            self.arrived.result(min(self.remaining, threading.TIMEOUT_MAX))
        return self.arrived.done()

    def result(self) -> Any:
        """The value, or the failure raised."""
        value, failure = self.arrived.result()
        if failure is not None:
            # Or the traceback would keep itself alive; what arrives after this is dropped, too.
            self.arrived = Future()
            try:
                raise failure
            finally:
                del failure
        return value


class Pool:
    """The threads of one runner and what they share.

    Threads refer to the pool alone, so that a runner that nobody uses any more
    is collected and can end them.
    """

    def __init__(self, max_workers: int) -> None:
        self._max_workers = max_workers
        self._lock = threading.Lock()
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._running: set[_Call] = set()
        # That nobody waits for.
        self.unattended: set[_Call] = set()
        # Idle threads less waiting calls.
        self._free = 0
        # Threads on a call that its caller has given up.
        self._overdue = 0
        self._ended = False

    def start(self, call: _Call, most_waiting: float = math.inf) -> None:
        """Hand `call` to a thread, or queue it for the next free one.

        Raises:
            AllWorkersBusyError: every thread is stuck, none can be started, or too many
                calls are waiting.
        """
        with self._lock:
            if self._ended or self._overdue >= self._max_workers or -self._free > most_waiting:
                raise AllWorkersBusyError
            if self._free <= 0 and len(self._threads) < self._max_workers:
                self._add_thread()
            self._free -= 1
            call.queued = self._free < 0
        if call.queued:
            change_queue("calls", 1)
        self._calls.put(call)

    def abandon(self, call: _Call) -> None:
        """Let `call` end, for nobody waits any more; it is not begun if it was not yet."""
        call.abandon()
        with self._lock:
            if call in self._running and not call.overdue:
                call.overdue = True
                self._overdue += 1
                change_queue("overdue_calls", 1)

    def end(self) -> None:
        """End every thread after its current call."""
        for _ in self._threads:
            self._calls.put(None)

    def finish(self, seconds: float) -> None:
        """Wait for the calls that nobody else waits for, at most so long."""
        wait([call.arrived for call in list(self.unattended)], seconds)

    def end_at_exit(self) -> list[threading.Thread]:
        """Reject further calls, let those under way end, and return the threads."""
        with self._lock:
            self._ended = True
            running = list(self._running)
        for call in running:
            call.abandon()
        self.end()
        return self._threads

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._work, name="knowgate-signal", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The process may not have more threads.
            if not self._threads:
                raise AllWorkersBusyError from None
            return
        self._threads.append(thread)
        self._free += 1

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            self._perform(call)
            # An idle thread must not keep the last question alive.
            del call

    def _perform(self, call: _Call) -> None:
        with self._lock:
            call.begun = not call.abandoned and not self._ended
            if call.begun:
                self._running.add(call)
        if call.queued:
            change_queue("calls", -1)
        outcome = _outcome(call.task) if call.begun else (None, DeadlineExceededError())
        # Free before the caller wakes up, so that it finds this thread again.
        with self._lock:
            self._free += 1
            self._running.discard(call)
            if call.overdue:
                self._overdue -= 1
                change_queue("overdue_calls", -1)
        call.arrive(*outcome)


class DeadlineRunner:
    """A bounded pool of daemon threads for calls with deadlines.

    Threads are started when they are needed, used again, and end with the runner. At the end of
    the process, daemon threads are waited for a second and no longer; those of
    `concurrent.futures.ThreadPoolExecutor` would be waited for until they end.

    Args:
        max_workers: most calls under way at once, stuck ones included.
    """

    def __init__(self, max_workers: int = 64) -> None:
        self._max_workers = max_workers
        self.begin()
        after_fork(self)

    def __reduce__(self) -> tuple[type[DeadlineRunner], tuple[int]]:
        """Copy or pickle as a runner of as many threads, none of them started."""
        return DeadlineRunner, (self._max_workers,)

    def begin(self) -> None:
        """Begin without threads; a forked process inherits the counts, but none of them."""
        self._pool = Pool(self._max_workers)
        weakref.finalize(self, self._pool.end).atexit = False
        end_at_exit(self._pool)

    def start(self, task: Callable[[], object], *, most_waiting: int) -> None:
        """Begin `task` on a thread and return; at exit it is given a second to finish.

        Args:
            task: with failures of its own; they are not raised anywhere.
            most_waiting: tasks that may wait for a thread.

        Raises:
            AllWorkersBusyError: more are waiting, or no thread can be started.
        """
        pool, context = self._pool, contextvars.copy_context()
        # Part of no call around it, whose deadline is not this one's.
        context.run(_current.set, None)
        call = context.run(_Call, None, lambda: context.run(task))
        context.run(_current.set, call)
        call.arrived.add_done_callback(lambda _: pool.unattended.discard(call))
        # Before it begins: the process may end at any time.
        pool.unattended.add(call)
        try:
            pool.start(call, most_waiting)
        except AllWorkersBusyError:
            pool.unattended.discard(call)
            raise

    def call(self, task: Callable[[], T], seconds: float | None) -> T:
        """The result of `task`, waited for at most `seconds` (None: no limit).

        Without a limit it runs on the caller's own thread.

        Args:
            task: what to do.
            seconds: until the deadline; a result that is there later is not accepted.

        Raises:
            DeadlineExceededError: it was not done in time.
            AllWorkersBusyError: every thread is stuck or was busy all the time.
        """
        if seconds is None:
            return task()
        with self._started(task, seconds) as call, when_abandoned(call.abandon):
            if not call.wait():
                raise _late(call)
        result: T = call.result()
        return result

    async def acall(self, task: Callable[[], T], seconds: float | None) -> T:
        """As `call`, without blocking the event loop; always on another thread."""
        arrived, wake = _wakeable()

        def tell(_: object) -> None:
            with suppress(RuntimeError):
                # The loop is closed: nobody waits.
                wake()

        with self._started(task, seconds) as call:
            call.arrived.add_done_callback(tell)
            await asyncio.wait({arrived}, timeout=seconds)
            if not arrived.done():
                raise _late(call)
        result: T = call.result()
        return result

    @contextmanager
    def _started(self, task: Callable[[], Any], seconds: float | None) -> Iterator[_Call]:
        """Hand `task` to a thread; it is abandoned where the block raises."""
        pool, context = self._pool, contextvars.copy_context()
        call = _Call(seconds, lambda: context.run(task))
        context.run(_current.set, call)
        pool.start(call)
        try:
            yield call
        except BaseException:
            # Late, cancelled or interrupted.
            pool.abandon(call)
            raise


def _wakeable() -> tuple[asyncio.Future[None], Callable[[], object]]:
    """A future of the running event loop, and what completes it from any thread.

    Once the loop is closed the latter raises RuntimeError.
    """
    loop = asyncio.get_running_loop()
    come: asyncio.Future[None] = loop.create_future()

    def arrive() -> None:
        if not come.done():
            come.set_result(None)

    return come, lambda: loop.call_soon_threadsafe(arrive)


def call_here(task: Callable[[], T], seconds: float | None) -> T:
    """As `DeadlineRunner.call`, on the caller's own thread.

    The deadline holds as far as `task` calls `check_deadline`.
    """
    if seconds is None:
        return task()
    call = _Call(seconds)
    token = _current.set(call)
    try:
        result = task()
    finally:
        _current.reset(token)
    call.check()
    return result


async def call_on_thread(task: Callable[[], T]) -> T:
    """The result of `task` on a thread; cancelling it ends `task` at its next check."""
    call = _Call(None)
    context = contextvars.copy_context()
    context.run(_current.set, call)
    try:
        return await asyncio.get_running_loop().run_in_executor(None, lambda: context.run(task))
    finally:
        call.abandon()


def _late(call: _Call) -> Exception:
    return AllWorkersBusyError() if call.queued and not call.begun else DeadlineExceededError()


def _outcome(task: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return task(), None
    except BaseException as error:  # noqa: BLE001 - must end neither this thread nor the caller
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            return None, error
        broken_off = TaskBrokeOffError(type(error).__name__)
        broken_off.__cause__ = error
        return None, broken_off


async def within(awaitable: Awaitable[T], seconds: float | None) -> T:
    """The result of `awaitable`, waited for at most `seconds` (None: no limit).

    What it returns after its deadline, or in reply to being cancelled, is not accepted.

    Raises:
        DeadlineExceededError: it was not done in time, and is cancelled.
    """
    call, cancelled_before = _Call(seconds), _cancellations()
    token = _current.set(call)
    try:
        async with asyncio.timeout(seconds) as scope:
            result = await awaitable
    except TimeoutError:
        if scope.expired():
            raise DeadlineExceededError from None
        raise
    finally:
        _current.reset(token)
        call.abandon()
    if _cancellations() > cancelled_before:
        raise asyncio.CancelledError
    if scope.expired() or time.monotonic() > call.ends:
        raise DeadlineExceededError
    return result


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def asked_to_stop() -> bool:
    """Return whether the current task was asked to cancel, rather than a call inside it."""
    return asyncio.current_task() is None or _cancellations() > 0


# -- turns -------------------------------------------------------------------------------------

# So that one slow question does not hold up all others.
_FIRST_WIDTH = 2
# Shares of its deadline that a measurement takes.
_WELL_WITHIN = 0.25
_CLOSE_TO = 0.5


class Turns:
    """The turns of one signal, shared by threads and event loops.

    How many are measured at once follows from how long they take: one more after each
    measurement that ended well within its deadline while others waited, one fewer after each
    that came close to it. So they end in time even where only one at a time is computed.

    Args:
        most: at once.
        longest: seconds that a question waits; None for no limit.
        fixed: whether `most` are measured at once however long they take.

    Attributes:
        longest: as given; infinity for no limit.
        width: how many are measured at once, as of now.
        begun: how many are measured now.
    """

    def __init__(self, most: int, longest: float | None, *, fixed: bool = False) -> None:
        self._most, self._fixed = most, fixed
        self.longest = math.inf if longest is None else longest
        self.begin()
        after_fork(self)

    def begin(self) -> None:
        """Begin with nobody's turn; what a forked process inherits are its parent's turns."""
        self._lock = threading.Lock()
        self.width = self._most if self._fixed else min(_FIRST_WIDTH, self._most)
        self.begun = 0
        # By what wakes it; the second are those whose turn has come.
        self._waiting: OrderedDict[Callable[[], object], None] = OrderedDict()
        self._admitted = set[Callable[[], object]]()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def take(self, waiting: Budget | None = None) -> None:
        """Wait for a turn, which `turn` or `end` ends.

        Args:
            waiting: what may be waited, where several calls have it together.

        Raises:
            NoTurnError: it did not come in time.
        """
        if self._took_free():
            return
        come, waiting = threading.Event(), waiting or Budget(self.longest)
        with self._in_line(come.set), waiting, when_abandoned(come.set):
            come.wait(min(waiting.left, seconds_left(), threading.TIMEOUT_MAX))

    async def atake(self, waiting: Budget | None = None) -> None:
        """As `take`, without blocking the event loop."""
        if self._took_free():
            return
        (come, wake), waiting = _wakeable(), waiting or Budget(self.longest)
        with self._in_line(wake), waiting:
            await asyncio.wait({come}, timeout=min(waiting.left, threading.TIMEOUT_MAX))

    def end(self, share: float | None = None) -> None:
        """End a turn, and let those that wait have theirs.

        Args:
            share: of its deadline that the measurement took; None where that tells nothing, as
                of what failed or was cancelled.
        """
        with self._lock:
            self.begun = max(0, self.begun - 1)
            if share is not None and not self._fixed:
                if share > _CLOSE_TO:
                    self.width = max(1, self.width - 1)
                elif share < _WELL_WITHIN and self._waiting:
                    self.width = min(self._most, self.width + 1)
            self._admit()

    @contextmanager
    def turn(self, deadline: float | None) -> Iterator[None]:
        """End a turn that was taken after the block, which measures.

        Args:
            deadline: seconds for one question; None where what it takes tells nothing.
        """
        started, tells = time.perf_counter(), False
        try:
            yield
            tells = True
        except DeadlineExceededError:
            tells = True
            raise
        finally:
            took = time.perf_counter() - started
            self.end(took / deadline if tells and deadline is not None else None)

    def _took_free(self) -> bool:
        """Begin a turn, if one is free."""
        with self._lock:
            free = not self._waiting and self.begun < self.width
            self.begun += free
            return free

    @contextmanager
    def _in_line(self, wake: Callable[[], object]) -> Iterator[None]:
        """Wait in line within the block; after it the turn must have come."""
        change_queue("turns", 1)
        try:
            with self._lock:
                self._waiting[wake] = None
                self._admit()
            yield
        except BaseException:
            if self._leave(wake):
                self.end()
            raise
        finally:
            change_queue("turns", -1)
        if not self._leave(wake):
            raise NoTurnError

    def _leave(self, wake: Callable[[], object]) -> bool:
        """Leave the line, and return whether the turn has come."""
        with self._lock:
            self._waiting.pop(wake, None)
            has_come = wake in self._admitted
            self._admitted.discard(wake)
            return has_come

    def _admit(self) -> None:
        while self._waiting and self.begun < self.width:
            wake, _ = self._waiting.popitem(last=False)
            # An event loop that was closed takes no turn.
            with suppress(RuntimeError):
                wake()
                self._admitted.add(wake)
                self.begun += 1
