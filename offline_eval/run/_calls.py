"""Calls that cost money: many items at once, one row in a table for each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from ...guard.errors import InputError
from ._event_loop import run_interruptibly
from ._limits import CallLimits, RateLimit
from ._progress import OnProgress, RunTotals, Tally
from ._rows import UnstorableRowError
from ._table import Table

Item = TypeVar("Item")
Row = Mapping[str, Any] | BaseModel


@dataclass(frozen=True)
class Calls(Generic[Item]):
    """How rows of a table are made by calls that cost money: one call, and one row, per item.

    Attributes:
        key: returns the text that identifies an item.
        failed: makes the row that states why an item has no answer; it is stored like
            any other. Gets the last attempt's exception, `LanguageModelTimeoutError`
            where it took too long, or `UnstorableRowError` where JSON cannot hold its row.
        limits: how many at once, how fast, how often.
        on_progress: called after every stored row, on the event loop; what it raises ends
            the run, as what `failed` raises does.
        stage: what the progress calls this.
    """

    key: Callable[[Item], str]
    failed: Callable[[Item, Exception], Row]
    limits: CallLimits = field(default_factory=CallLimits)
    on_progress: OnProgress | None = None
    stage: str = ""

    async def run(
        self, items: Iterable[Item], call: Callable[[Item], Awaitable[Row]], table: Table[Any]
    ) -> RunTotals:
        """Store one row in a table for every item.

        Items whose key is in the table are not asked. A row is on disk before the next
        item takes its place, so a kill loses at most the calls that are under way.

        Args:
            items: what to ask about.
            call: makes the row of an item.
            table: open; its key field holds `key(item)` in every row.

        Raises:
            InputError: two items share a key, or the table cannot be written; rows stored
                before stay.
            ValueError: `failed` made no row that can be stored under the item's key.
        """
        everything = _by_key(items, self.key)
        todo = [(name, item) for name, item in everything.items() if name not in table.done]
        already = len(everything) - len(todo)
        most = self.limits.max_concurrency
        tally = Tally(len(everything), already, most, stage=self.stage)
        asker = _Asker(call, self.failed, table, self.limits)
        queue = iter(todo)

        async def ask_next() -> None:
            for name, item in queue:
                row, no_answer = await asker.stored(name, item)
                tally.add(row, failed=no_answer)
                if self.on_progress is not None:
                    self.on_progress(tally.progress())

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(most, len(todo))):
                    group.create_task(ask_next())
        except BaseExceptionGroup as several:
            raise next(_leaves(several)) from None
        return tally.totals()

    def run_sync(
        self, items: Iterable[Item], call: Callable[[Item], Awaitable[Row]], table: Table[Any]
    ) -> RunTotals:
        """Do as `run`, where no event loop runs.

        Raises:
            KeyboardInterrupt: Ctrl-C; calls under way were given up, their items are asked
                next time. Rows that were handed to the table are whole.
            SystemExit: likewise, with code 143, on SIGTERM.
        """
        return run_interruptibly(self.run(items, call, table))


class _Asker(Generic[Item]):
    """Asks one item: attempts, its row or the row of its failure, the table."""

    def __init__(
        self,
        call: Callable[[Item], Awaitable[Row]],
        failed: Callable[[Item, Exception], Row],
        table: Table[Any],
        limits: CallLimits,
    ) -> None:
        self._call, self._failed, self._table = call, failed, table
        self._limits, self._rate = limits, RateLimit(limits.rate)

    async def stored(self, name: str, item: Item) -> tuple[Row, bool]:
        """Store the item's row; return it, and whether it states a failure."""
        try:
            row = await self._limits.attempt(lambda: self._call(item), self._rate)
        except self._limits.stop_on:
            raise
        except Exception as error:  # noqa: BLE001 - becomes a row
            return await self._store_failure(name, item, error), True
        try:
            stored = self._submitted(name, row)
        except UnstorableRowError as error:
            return await self._store_failure(name, item, error), True
        await asyncio.wrap_future(stored)
        return row, False

    async def _store_failure(self, name: str, item: Item, error: Exception) -> Row:
        row = self._failed(item, error)
        try:
            stored = self._submitted(name, row)
        except UnstorableRowError as refusal:
            raise ValueError("`failed` made a row that cannot be stored") from refusal
        await asyncio.wrap_future(stored)
        return row

    def _submitted(self, name: str, row: Row) -> Future[None]:
        if not isinstance(row, Mapping | BaseModel) or _value(row, self._table.key) != name:
            raise UnstorableRowError(
                f"the call made no row whose {self._table.key!r} is that of its item",
                where=f"row {name[:80]!r}",
            )
        return self._table.submit(row)


def _value(row: Row, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)


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
