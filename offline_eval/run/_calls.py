"""Asking many items at once, and storing what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from ...guard.deadlines import DeadlineExceededError, asked_to_stop, within
from ...guard.errors import InputError, LanguageModelError, LanguageModelTimeoutError, is_transient
from ._store import RowStore
from ._table import UnstorableRowError
from ._threads import DaemonThreads

_Result = TypeVar("_Result")

_EXIT_CODE = 128 + signal.SIGTERM
_MOST_THREADS = 64


def run_interruptibly(work: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of `work` on an event loop of its own.

    Both signals cancel `work`, which so can put its affairs in order, instead of
    breaking off whatever the loop is just doing.

    Raises:
        KeyboardInterrupt: after Ctrl-C.
        SystemExit: after SIGTERM, with code 143.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_default_executor(DaemonThreads(_MOST_THREADS))
        stopped = False

        async def guarded() -> _Result:
            task = asyncio.current_task()
            assert task is not None

            def stop() -> None:
                nonlocal stopped
                stopped = True
                task.cancel()

            with _on_sigterm(loop, stop):
                return await work

        try:
            return runner.run(guarded())
        except asyncio.CancelledError:
            if stopped:
                raise SystemExit(_EXIT_CODE) from None
            raise


@contextlib.contextmanager
def _on_sigterm(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    # Threads cannot have handlers; one who ignores the signal means it.
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield
        return
    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        if before is not None:
            signal.signal(signal.SIGTERM, before)


class RateLimit:
    """A token bucket that holds one token: no burst, whatever came before.

    Calls go out in the order in which they came. One that goes out late by less than an
    interval does not put the others off, so that the rate is kept on average; after a
    longer delay, of an event loop that stood still say, they are an interval apart again.

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
        self._first_come = asyncio.Lock()

    async def wait(self) -> None:
        """Return when the next call may go out."""
        if not self._interval:
            return
        time = asyncio.get_running_loop().time
        async with self._first_come:
            if (early := self._next - time()) > 0:
                await asyncio.sleep(early)
            now = time()
            planned = self._next if now - self._next < self._interval else now
            self._next = planned + self._interval


_LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class AttemptRules:
    """How often a call is tried, with exponential and jittered waits in between.

    Args:
        timeout: seconds per attempt, None for no limit.
        most: attempts altogether, at least 1.
        first_wait: seconds before the second attempt, doubled from there up to a minute;
            up to as much as `first_wait` is added at random, so that calls do not come
            back all at once.
        retry_on: exceptions worth another attempt besides those that may pass by
            themselves: missed deadlines, connection errors, retryable HTTP statuses.

    Raises:
        InputError: an argument is out of range.
    """

    timeout: float | None
    most: int
    first_wait: float
    retry_on: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        if self.most < 1:
            raise InputError("must be at least 1", where="max_attempts")
        if self.timeout is not None and not self.timeout > 0:
            raise InputError("must be positive seconds or None", where="timeout")
        if not self.first_wait >= 0:
            raise InputError("must not be negative", where="first_wait")

    async def run(self, attempt: Callable[[], Awaitable[_Result]], rate: RateLimit) -> _Result:
        """The result of the first attempt that succeeds.

        Raises:
            LanguageModelTimeoutError: the last attempt took too long.
            Exception: what the last attempt raised.
        """

        async def timed() -> _Result:
            await rate.wait()
            return await self._within_deadline(attempt)

        if self.most == 1:
            return await timed()
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.most),
            wait=wait_exponential(self.first_wait, _LONGEST_WAIT) + wait_random(0, self.first_wait),
            retry=retry_if_exception(self._worth_another),
            reraise=True,
        )
        return await retrying(timed)

    async def _within_deadline(self, attempt: Callable[[], Awaitable[_Result]]) -> _Result:
        try:
            return await within(attempt(), self.timeout)
        except DeadlineExceededError as error:
            raise LanguageModelTimeoutError(f"no answer within {self.timeout:g} s") from error
        except asyncio.CancelledError as error:
            if asked_to_stop():
                raise
            # A client library cancelled a task of its own; this run goes on.
            raise LanguageModelError("the call was cancelled from within") from error

    def _worth_another(self, error: BaseException) -> bool:
        return isinstance(error, self.retry_on) or may_pass(error)


def may_pass(error: BaseException) -> bool:
    """Whether trying again may help, by type and status of the error alone."""
    return is_transient(error)


_LEAST_WINDOW = 64
_WINDOW_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class CallProgress:
    """How far a run is, after some row was stored.

    Attributes:
        done: rows in the store, those of earlier runs included.
        total: items.
        failed: rows of this run that say why there is no answer.
        seconds: since this run began.
        eta_seconds: until all is done, at the pace of late; None before anything is
            known of it.
        input_tokens: of this run's rows that name any, None where none does.
        output_tokens: likewise.
        calls: likewise.
    """

    done: int
    total: int
    failed: int
    seconds: float
    eta_seconds: float | None
    input_tokens: int | None
    output_tokens: int | None
    calls: int | None


@dataclass(frozen=True, slots=True)
class RunTotals:
    """What became of a run's items.

    Attributes:
        total: items.
        already: items that the store held before.
        stored: rows that this run added.
        failed: those of them that say why there is no answer.
        seconds: that it took.
        input_tokens: of the added rows that name any, None where none does.
        output_tokens: likewise.
        calls: likewise.
    """

    total: int
    already: int
    stored: int
    failed: int
    seconds: float
    input_tokens: int | None
    output_tokens: int | None
    calls: int | None


class Tally:
    """Counts rows as they are stored.

    Args:
        total: items.
        already: items that the store held before.
        at_once: most calls under way; the pace is taken over several rounds of them,
            since calls that began together end together.
        clock: tells seconds.
    """

    def __init__(
        self,
        total: int,
        already: int,
        at_once: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._already, self._clock = total, already, clock
        self._stored = self._failed = 0
        self._spent: dict[str, int] = {}
        self._began = self._clock()
        self._ends: deque[float] = deque(
            [self._began], maxlen=max(_LEAST_WINDOW, _WINDOW_ROUNDS * at_once) + 1
        )

    def add(self, row: Mapping[str, Any], *, failed: bool) -> None:
        """Count a row that is on disk."""
        self._stored += 1
        self._failed += failed
        for name in ("input_tokens", "output_tokens", "calls"):
            number = row.get(name)
            if isinstance(number, int):
                self._spent[name] = self._spent.get(name, 0) + number
        self._ends.append(self._clock())

    def progress(self) -> CallProgress:
        """The state as of now."""
        now = self._clock()
        done = self._already + self._stored
        return CallProgress(
            done=done,
            total=self._total,
            failed=self._failed,
            seconds=now - self._began,
            eta_seconds=self._eta(self._total - done, now),
            input_tokens=self._spent.get("input_tokens"),
            output_tokens=self._spent.get("output_tokens"),
            calls=self._spent.get("calls"),
        )

    def totals(self) -> RunTotals:
        """The state at the end."""
        return RunTotals(
            total=self._total,
            already=self._already,
            stored=self._stored,
            failed=self._failed,
            seconds=self._clock() - self._began,
            input_tokens=self._spent.get("input_tokens"),
            output_tokens=self._spent.get("output_tokens"),
            calls=self._spent.get("calls"),
        )

    def _eta(self, left: int, now: float) -> float | None:
        """Seconds left at the pace of the window up to now, so that a stall shows."""
        if left == 0:
            return 0.0
        ended = len(self._ends) - 1
        return left * (now - self._ends[0]) / ended if ended else None


Item = TypeVar("Item")
Row = Mapping[str, Any]


async def run_calls(
    items: Iterable[Item],
    call: Callable[[Item], Awaitable[Row]],
    store: RowStore,
    *,
    key: Callable[[Item], str],
    failed: Callable[[Item, Exception], Row],
    max_concurrency: int = 8,
    rate: float | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - of one attempt, not of them all
    max_attempts: int = 3,
    first_wait: float = 0.25,
    retry_on: tuple[type[Exception], ...] = (),
    stop_on: tuple[type[Exception], ...] = (),
    on_progress: Callable[[CallProgress], object] | None = None,
) -> RunTotals:
    """One row in the store for every item.

    Items whose key is in the store are not asked. A row is on disk before the next
    item takes its place, so a kill loses at most the calls that are under way.

    Args:
        items: what to ask about.
        call: makes the row of an item. One that blocks goes through `in_threads`.
        store: open; its key field holds `key(item)` in every row.
        key: tells items apart, as text.
        failed: makes the row that says why an item has no answer; it is stored like
            any other. Gets the last attempt's exception, `LanguageModelTimeoutError`
            where it took too long, or `UnstorableRowError`
            where JSON cannot hold its row.
        max_concurrency: most items under way at once, at least 1.
        rate: most attempts per second, evenly spaced; None for no limit.
        timeout: seconds per attempt.
        max_attempts: per item, at least 1.
        first_wait: seconds before the second attempt, doubled and jittered from there.
        retry_on: exceptions worth another attempt besides those that may pass by
            themselves: missed deadlines, connection errors, retryable HTTP statuses.
        stop_on: exceptions that end the run and become no row: those that every further
            call would meet, too.
        on_progress: called after every stored row, on the event loop; what it raises ends
            the run, as what `failed` raises does.

    Returns:
        What became of the items.

    Raises:
        InputError: an argument is out of range, two items share a key, or the store
            cannot be written; rows stored before stay.
        ValueError: `failed` made no row that can be stored under the item's key.
    """
    rules = AttemptRules(timeout, max_attempts, first_wait, retry_on)
    if max_concurrency < 1:
        raise InputError("must be at least 1", where="max_concurrency")
    limit = RateLimit(rate)
    everything = _by_key(items, key)
    todo = [(name, item) for name, item in everything.items() if name not in store.done]
    tally = Tally(len(everything), len(everything) - len(todo), max_concurrency)
    asking = _Asking(call, failed, store, rules, limit, stop_on)
    queue = iter(todo)

    async def ask_on() -> None:
        for name, item in queue:
            row, no_answer = await asking.stored(name, item)
            tally.add(row, failed=no_answer)
            if on_progress is not None:
                on_progress(tally.progress())

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(max_concurrency, len(todo))):
                group.create_task(ask_on())
    except BaseExceptionGroup as several:
        raise next(_leaves(several)) from None
    return tally.totals()


def run_calls_sync(
    items: Iterable[Item],
    call: Callable[[Item], Awaitable[Row]],
    store: RowStore,
    *,
    key: Callable[[Item], str],
    failed: Callable[[Item, Exception], Row],
    max_concurrency: int = 8,
    rate: float | None = None,
    timeout: float | None = None,
    max_attempts: int = 3,
    first_wait: float = 0.25,
    retry_on: tuple[type[Exception], ...] = (),
    stop_on: tuple[type[Exception], ...] = (),
    on_progress: Callable[[CallProgress], object] | None = None,
) -> RunTotals:
    """As `run_calls`, where no event loop runs.

    Raises:
        KeyboardInterrupt: Ctrl-C; calls under way were given up, their items are asked
            next time. Rows that were handed to the store are whole.
        SystemExit: likewise, with code 143, on SIGTERM.
    """
    return run_interruptibly(
        run_calls(
            items,
            call,
            store,
            key=key,
            failed=failed,
            max_concurrency=max_concurrency,
            rate=rate,
            timeout=timeout,
            max_attempts=max_attempts,
            first_wait=first_wait,
            retry_on=retry_on,
            stop_on=stop_on,
            on_progress=on_progress,
        )
    )


class _Asking(Generic[Item]):
    """One item's way: attempts, its row or the row of its failure, the store."""

    def __init__(
        self,
        call: Callable[[Item], Awaitable[Row]],
        failed: Callable[[Item, Exception], Row],
        store: RowStore,
        rules: AttemptRules,
        rate: RateLimit,
        stop_on: tuple[type[Exception], ...],
    ) -> None:
        self._call, self._failed, self._store = call, failed, store
        self._rules, self._rate, self._stop_on = rules, rate, stop_on

    async def stored(self, name: str, item: Item) -> tuple[Row, bool]:
        """The item's row, on disk, and whether it says why there is no answer."""
        try:
            row = await self._rules.run(lambda: self._call(item), self._rate)
        except self._stop_on:
            raise
        except Exception as error:  # noqa: BLE001 - becomes a row
            return await self._stored_failure(name, item, error), True
        try:
            stored = self._submitted(name, row)
        except UnstorableRowError as error:
            return await self._stored_failure(name, item, error), True
        await asyncio.wrap_future(stored)
        return row, False

    async def _stored_failure(self, name: str, item: Item, error: Exception) -> Row:
        row = self._failed(item, error)
        try:
            stored = self._submitted(name, row)
        except UnstorableRowError as refusal:
            raise ValueError("`failed` made a row that cannot be stored") from refusal
        await asyncio.wrap_future(stored)
        return row

    def _submitted(self, name: str, row: Row) -> Future[None]:
        if not isinstance(row, Mapping) or row.get(self._store.key) != name:
            raise UnstorableRowError(
                f"the call made no row whose {self._store.key!r} is that of its item",
                where=f"row {name[:80]!r}",
            )
        return self._store.submit(row)


def _by_key(items: Iterable[Item], key: Callable[[Item], str]) -> dict[str, Item]:
    found: dict[str, Item] = {}
    for item in items:
        name = key(item)
        if name in found:
            raise InputError(f"two items have the key {name[:80]!r}", where="items")
        found[name] = item
    return found


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
