"""The same run, its calls made by the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from ...adapters.ray import NoWorkersLeftError, PoolSize, worker_pool
from ._calls import (
    AttemptRules,
    CallProgress,
    RateLimit,
    RunTotals,
    may_pass,
    run_calls,
    run_interruptibly,
)
from ._store import RowStore

Item = TypeVar("Item")
Row = Mapping[str, Any]


async def run_calls_ray(
    items: Iterable[Item],
    factory: Callable[[], Callable[[Item], Awaitable[Row]]],
    store: RowStore,
    *,
    key: Callable[[Item], str],
    failed: Callable[[Item, Exception], Row],
    size: PoolSize | None = None,
    address: str | None = None,
    rate: float | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - of one attempt, not of them all
    max_attempts: int = 3,
    first_wait: float = 0.25,
    retry_on: tuple[type[Exception], ...] = (),
    stop_on: tuple[type[Exception], ...] = (),
    on_progress: Callable[[CallProgress], object] | None = None,
) -> RunTotals:
    """As `run_calls`, with the calls made by workers on a Ray cluster.

    This process alone writes the store, spaces the calls of all workers and tries
    again. The items of a worker that dies are asked again by others: such an item may
    be asked twice, and is stored once.

    Args:
        items: picklable.
        factory: makes the call in each worker; takes nothing and must be picklable.
            A call that blocks goes through `in_threads`, inside the factory.
        store: open, in this process.
        key: as for `run_calls`.
        failed: likewise; called in this process. Gets `RemoteCallError` for an error
            that cannot travel and `WorkerLostError` where several workers died over
            the item.
        size: number of workers, items at each at once, restarts; two workers of eight
            by default.
        address: of a running cluster, as for `ray.init`; None starts one on this machine.
        rate: most attempts per second of all workers together.
        timeout: seconds per attempt, from when a worker has got the item.
        max_attempts: as for `run_calls`.
        first_wait: likewise.
        retry_on: likewise; matched in this process.
        stop_on: likewise.
        on_progress: likewise.

    Raises:
        MissingDependencyError: Ray is not installed.
        WorkerStartError: the workers could not be started.
        NoWorkersLeftError: too many workers died; rows stored before stay.
        InputError: as `run_calls`; or there is no cluster at `address`.
        ValueError: as `run_calls`.
    """
    items = list(items)
    pool_size = size or PoolSize()
    # Before a cluster is started for nothing.
    AttemptRules(timeout, max_attempts, first_wait, retry_on)
    RateLimit(rate)

    async def run(call: Callable[[Item], Awaitable[Row]]) -> RunTotals:
        return await run_calls(
            items,
            call,
            store,
            key=key,
            failed=failed,
            max_concurrency=pool_size.workers * pool_size.in_flight,
            rate=rate,
            # The pool sees to it: waiting for a new worker is not the answer's fault.
            timeout=None,
            max_attempts=max_attempts,
            first_wait=first_wait,
            retry_on=retry_on,
            stop_on=(*stop_on, NoWorkersLeftError),
            on_progress=on_progress,
        )

    if all(key(item) in store.done for item in items):
        return await run(_never_called)
    async with worker_pool(
        factory, pool_size, address=address, may_pass=may_pass, timeout=timeout
    ) as pool:
        return await run(pool.ask)


def run_calls_ray_sync(
    items: Iterable[Item],
    factory: Callable[[], Callable[[Item], Awaitable[Row]]],
    store: RowStore,
    *,
    key: Callable[[Item], str],
    failed: Callable[[Item, Exception], Row],
    size: PoolSize | None = None,
    address: str | None = None,
    rate: float | None = None,
    timeout: float | None = None,
    max_attempts: int = 3,
    first_wait: float = 0.25,
    retry_on: tuple[type[Exception], ...] = (),
    stop_on: tuple[type[Exception], ...] = (),
    on_progress: Callable[[CallProgress], object] | None = None,
) -> RunTotals:
    """As `run_calls_ray`, where no event loop runs.

    Raises:
        KeyboardInterrupt: Ctrl-C, as `run_calls_sync`; workers and cluster are ended.
        SystemExit: likewise, with code 143, on SIGTERM.
    """
    return run_interruptibly(
        run_calls_ray(
            items,
            factory,
            store,
            key=key,
            failed=failed,
            size=size,
            address=address,
            rate=rate,
            timeout=timeout,
            max_attempts=max_attempts,
            first_wait=first_wait,
            retry_on=retry_on,
            stop_on=stop_on,
            on_progress=on_progress,
        )
    )


async def _never_called(item: Item) -> Row:
    raise AssertionError(item)
