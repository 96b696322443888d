"""The turns of a signal: how many questions are measured at once, and what waiting may cost."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from .deadlines import seconds_left, when_abandoned
from .errors import DeadlineExceededError, NoTurnError
from .process import after_fork, change_queue

T = TypeVar("T")

# So that one slow question does not hold up all others.
_FIRST_WIDTH = 2
# Shares of its deadline that a measurement takes.
_WELL_WITHIN = 0.25
_CLOSE_TO = 0.5


class Budget:
    """Seconds that may be spent in blocks of `with`; those that overlap are counted once.

    Args:
        seconds: in all; infinity for no limit.

    Example:
        >>> budget = Budget(60.0)
        >>> with budget:
        ...     pass
        >>> 0 <= budget.spent < 60, 0 < budget.left <= 60
        (True, True)
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._before = seconds, 0.0
        self._lock, self._blocks, self._since = threading.Lock(), 0, 0.0

    @property
    def spent(self) -> float:
        """Seconds so far."""
        with self._lock:
            return self._before + (time.monotonic() - self._since if self._blocks else 0.0)

    @property
    def left(self) -> float:
        """Seconds to go, at least 0."""
        return max(0.0, self._seconds - self.spent)

    def __enter__(self) -> Budget:
        """Begin to spend."""
        with self._lock:
            if not self._blocks:
                self._since = time.monotonic()
            self._blocks += 1
        return self

    def __exit__(self, *exc: object) -> None:
        """Spend no more."""
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._before += time.monotonic() - self._since


def cpu_count() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(eq=False, slots=True)
class _Waiter:
    """One question that waits; `wake` is called when its turn has come."""

    wake: Callable[[], object]
    admitted: bool = False


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
    """

    def __init__(self, most: int, longest: float | None, *, fixed: bool = False) -> None:
        self._most, self._fixed = most, fixed
        self.longest = math.inf if longest is None else longest
        self.begin()
        after_fork(self)

    def begin(self) -> None:
        """Begin with nobody's turn; what a forked process inherits are its parent's turns."""
        self._lock = threading.Lock()
        self._width = self._most if self._fixed else min(_FIRST_WIDTH, self._most)
        self._begun = 0
        self._waiting: OrderedDict[_Waiter, None] = OrderedDict()

    @property
    def width(self) -> int:
        """How many are measured at once, as of now."""
        return self._width

    @property
    def begun(self) -> int:
        """How many are measured now."""
        return self._begun

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def call(
        self, run: Callable[[], T], deadline: float | None, waiting: Budget | None = None
    ) -> T:
        """What `run` returns, once its turn has come.

        Args:
            run: measures; no longer than its deadline.
            deadline: seconds for one question; None where it tells nothing.
            waiting: what may be waited, where several calls have it together.

        Raises:
            NoTurnError: its turn did not come in time.
        """
        self.take(waiting)
        with self._turn(deadline):
            return run()

    async def acall(
        self,
        run: Callable[[], Awaitable[T]],
        deadline: float | None,
        waiting: Budget | None = None,
    ) -> T:
        """As `call`, without blocking the event loop."""
        await self.atake(waiting)
        with self._turn(deadline):
            return await run()

    def take(self, waiting: Budget | None = None) -> None:
        """Wait for a turn; `waiting` as for `call`.

        Raises:
            NoTurnError: it did not come in time.
        """
        if self._took_free():
            return
        come, waiting = threading.Event(), waiting or Budget(self.longest)
        with self._waiter(come.set) as waiter, waiting, when_abandoned(come.set):
            if not waiter.admitted:
                come.wait(min(waiting.left, seconds_left(), threading.TIMEOUT_MAX))

    async def atake(self, waiting: Budget | None = None) -> None:
        """As `take`, without blocking the event loop."""
        if self._took_free():
            return
        loop, waiting = asyncio.get_running_loop(), waiting or Budget(self.longest)
        come: asyncio.Future[None] = loop.create_future()

        def arrive() -> None:
            if not come.done():
                come.set_result(None)

        with self._waiter(lambda: loop.call_soon_threadsafe(arrive)) as waiter, waiting:
            if not waiter.admitted:
                await asyncio.wait({come}, timeout=min(waiting.left, threading.TIMEOUT_MAX))

    def end(self, share: float | None = None) -> None:
        """End a turn, and let those that wait have theirs.

        Args:
            share: of its deadline that the measurement took; None where that tells nothing, as
                of what failed or was cancelled.
        """
        with self._lock:
            self._begun = max(0, self._begun - 1)
            if share is not None and not self._fixed:
                if share > _CLOSE_TO:
                    self._width = max(1, self._width - 1)
                elif share < _WELL_WITHIN and self._waiting:
                    self._width = min(self._most, self._width + 1)
            self._admit()

    @contextmanager
    def _turn(self, deadline: float | None) -> Iterator[None]:
        """End the turn after the block, which measures, by how much of its deadline it took."""
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
            free = not self._waiting and self._begun < self._width
            self._begun += free
            return free

    @contextmanager
    def _waiter(self, wake: Callable[[], object]) -> Iterator[_Waiter]:
        """Wait in line within the block; after it the turn must have come."""
        waiter = _Waiter(wake)
        change_queue("turns", 1)
        try:
            with self._lock:
                self._waiting[waiter] = None
                self._admit()
            yield waiter
        except BaseException:
            if not self._left(waiter):
                self.end()
            raise
        finally:
            change_queue("turns", -1)
        if self._left(waiter):
            raise NoTurnError

    def _left(self, waiter: _Waiter) -> bool:
        """Leave the line; False where the turn has come."""
        with self._lock:
            self._waiting.pop(waiter, None)
            return not waiter.admitted

    def _admit(self) -> None:
        while self._waiting and self._begun < self._width:
            waiter, _ = self._waiting.popitem(last=False)
            # An event loop that was closed takes no turn.
            with suppress(RuntimeError):
                waiter.wake()
                waiter.admitted = True
                self._begun += 1
