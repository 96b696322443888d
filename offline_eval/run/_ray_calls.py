"""The same calls, made by the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ...adapters.ray import NoWorkersLeftError, PoolSize
from ...guard.errors import is_transient
from ._calls import Calls, Row
from ._event_loop import run_interruptibly
from ._limits import CallLimits
from ._progress import RunTotals
from ._table import Table

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class RayPool:
    """Workers on a Ray cluster.

    Attributes:
        size: number of workers, items at each at once, restarts; two workers of eight
            by default. It takes the place of `CallLimits.max_concurrency`.
        address: of a running cluster, as for `ray.init`; None starts one on this machine.
    """

    size: PoolSize = field(default_factory=PoolSize)
    address: str | None = None

    def limits(self, limits: CallLimits) -> CallLimits:
        """Return the limits of this process, where the workers make the calls."""
        return replace(
            limits,
            max_concurrency=self.size.workers * self.size.in_flight,
            # The pool applies it: waiting for a new worker does not count.
            timeout=None,
            stop_on=(*limits.stop_on, NoWorkersLeftError),
        )

    @asynccontextmanager
    async def open(
        self, factory: Callable[[], Callable[[Any], Awaitable[Any]]], limits: CallLimits
    ) -> AsyncIterator[Callable[[Any], Awaitable[Any]]]:
        """Start the workers, and yield what asks one of them.

        Args:
            factory: makes the call in each worker; takes nothing and must be picklable.
            limits: of the calls; a timeout counts from when a worker has got the item.

        Raises:
            MissingDependencyError: Ray is not installed.
            WorkerStartError: the workers could not be started.
            InputError: there is no cluster at the address.
        """
        async with self.size.open(
            factory, address=self.address, may_pass=is_transient, timeout=limits.timeout
        ) as workers:
            yield workers.ask

    async def run(
        self,
        calls: Calls[Item],
        items: Iterable[Item],
        factory: Callable[[], Callable[[Any], Awaitable[Row]]],
        table: Table[Any],
        send: Callable[[Item], Any] | None = None,
    ) -> RunTotals:
        """Do as `Calls.run`, with the calls made by the workers.

        This process alone writes the table, spaces the calls of all workers and tries
        again. The items of a worker that dies are asked again by others: such an item may
        be asked twice, and is stored once.

        Args:
            calls: how; `failed` is called in this process and gets `RemoteCallError` for an
                error that cannot be pickled, `WorkerLostError` where several workers died over
                the item. The rate is that of all workers together, and a timeout counts from
                when a worker has got the item.
            items: picklable, unless `send` is given.
            factory: makes the call in each worker; takes nothing and must be picklable.
            table: open, in this process.
            send: returns what a worker gets for an item; by default the item itself.

        Raises:
            MissingDependencyError: Ray is not installed.
            WorkerStartError: the workers could not be started.
            NoWorkersLeftError: too many workers died; rows stored before stay.
            InputError: as `Calls.run`; or there is no cluster at the address.
            ValueError: as `Calls.run`.
        """
        items = list(items)
        here = replace(calls, limits=self.limits(calls.limits))
        if all(calls.key(item) in table.done for item in items):
            return await here.run(items, _never_called, table)
        async with self.open(factory, calls.limits) as ask:

            async def call(item: Item) -> Row:
                row: Row = await ask(item if send is None else send(item))
                return row

            return await here.run(items, call, table)

    def run_sync(
        self,
        calls: Calls[Item],
        items: Iterable[Item],
        factory: Callable[[], Callable[[Any], Awaitable[Row]]],
        table: Table[Any],
        send: Callable[[Item], Any] | None = None,
    ) -> RunTotals:
        """Do as `run`, where no event loop runs.

        Raises:
            KeyboardInterrupt: Ctrl-C, as `Calls.run_sync`; workers and cluster are ended.
            SystemExit: likewise, with code 143, on SIGTERM.
        """
        return run_interruptibly(self.run(calls, items, factory, table, send))


async def _never_called(item: Item) -> Row:
    raise AssertionError(item)
