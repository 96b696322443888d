"""Asking many items at once, and storing what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from ...guard import InputError
from ._attempts import AttemptRules
from ._interrupts import run_interruptibly
from ._progress import CallProgress, RunTotals, Tally
from ._rate_limit import RateLimit
from ._rows import UnstorableRowError
from ._store import RowStore

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
