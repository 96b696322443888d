"""The same calls, made by the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ...adapters.ray import NoWorkersLeftError, PoolSize, worker_pool
from ...guard.errors import is_transient
from ._calls import Row, run_calls
from ._event_loop import run_interruptibly
from ._limits import CallLimits
from ._progress import OnProgress, RunTotals
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


async def run_calls_ray(
    items: Iterable[Item],
    factory: Callable[[], Callable[[Item], Awaitable[Row]]],
    table: Table[Any],
    *,
    key: Callable[[Item], str],
    failed: Callable[[Item, Exception], Row],
    limits: CallLimits | None = None,
    on_progress: OnProgress | None = None,
    pool: RayPool | None = None,
) -> RunTotals:
    """Do as `run_calls`, with the calls made by workers on a Ray cluster.

    This process alone writes the table, spaces the calls of all workers and tries
    again. The items of a worker that dies are asked again by others: such an item may
    be asked twice, and is stored once.

    Args:
        items: picklable.
        factory: makes the call in each worker; takes nothing and must be picklable.
            A call that blocks goes through `in_threads`, inside the factory.
        table: open, in this process.
        key: as for `run_calls`.
        failed: likewise; called in this process. Gets `RemoteCallError` for an error
            that cannot be pickled and `WorkerLostError` where several workers died over
            the item.
        limits: as for `run_calls`; the rate is that of all workers together, and a
            timeout counts from when a worker has got the item.
        on_progress: as for `run_calls`; the stage is `asking`.
        pool: of workers.

    Raises:
        MissingDependencyError: Ray is not installed.
        WorkerStartError: the workers could not be started.
        NoWorkersLeftError: too many workers died; rows stored before stay.
        InputError: as `run_calls`; or there is no cluster at the address.
        ValueError: as `run_calls`.
    """
    items = list(items)
    pool, limits = pool or RayPool(), limits or CallLimits()
    timeout = limits.timeout
    limits = replace(
        limits,
        max_concurrency=pool.size.workers * pool.size.in_flight,
        # The pool applies it: waiting for a new worker does not count.
        timeout=None,
        stop_on=(*limits.stop_on, NoWorkersLeftError),
    )

    async def run(call: Callable[[Item], Awaitable[Row]]) -> RunTotals:
        return await run_calls(
            items,
            call,
            table,
            key=key,
            failed=failed,
            limits=limits,
            on_progress=on_progress,
            stage="asking",
        )

    if all(key(item) in table.done for item in items):
        return await run(_never_called)
    async with worker_pool(
        factory, pool.size, address=pool.address, may_pass=is_transient, timeout=timeout
    ) as workers:
        return await run(workers.ask)


def run_calls_ray_sync(
    items: Iterable[Item],
    factory: Callable[[], Callable[[Item], Awaitable[Row]]],
    table: Table[Any],
    *,
    key: Callable[[Item], str],
    failed: Callable[[Item, Exception], Row],
    limits: CallLimits | None = None,
    on_progress: OnProgress | None = None,
    pool: RayPool | None = None,
) -> RunTotals:
    """Do as `run_calls_ray`, where no event loop runs.

    Raises:
        KeyboardInterrupt: Ctrl-C, as `run_calls_sync`; workers and cluster are ended.
        SystemExit: likewise, with code 143, on SIGTERM.
    """
    return run_interruptibly(
        run_calls_ray(
            items,
            factory,
            table,
            key=key,
            failed=failed,
            limits=limits,
            on_progress=on_progress,
            pool=pool,
        )
    )


async def _never_called(item: Item) -> Row:
    raise AssertionError(item)
