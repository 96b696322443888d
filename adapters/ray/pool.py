"""Run a call in workers on a Ray cluster, each item on a free worker."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Generic, cast

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from ...guard.errors import LanguageModelTimeoutError
from ...guard.read_models import CheckedSettings, Count
from .cluster import (
    Item,
    NoWorkersLeftError,
    Result,
    Worker,
    WorkerLostError,
    WorkerStartError,
    ray_cluster,
)

# The last time, an item has its worker for itself, so that no other item can be the cause.
_MOST_DEATHS_PER_ITEM = 3


_Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PoolSize(CheckedSettings):
    """How many workers there are and what each may do.

    Args:
        workers: at least 1.
        in_flight: most items at one worker at once, at least 1.
        max_restarts: most dead workers replaced in the whole run; None for four per
            worker.
        cpus_per_worker: that Ray sets aside for each.
        gpus_per_worker: likewise.
        start_timeout: seconds until a worker must have made its call.
        grace: seconds that a cancelled call may take to end; a worker whose call does
            not end is replaced.

    Raises:
        InputError: a number is out of range.
    """

    workers: Count = 2
    in_flight: Count = 8
    max_restarts: Annotated[int, Field(ge=0)] | None = None
    cpus_per_worker: _Share = 1.0
    gpus_per_worker: _Share = 0.0
    start_timeout: _Seconds = 300.0
    grace: _Seconds = 30.0

    @contextlib.asynccontextmanager
    async def open(
        self,
        factory: Callable[[], Callable[[Item], Awaitable[Result]]],
        *,
        address: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - of each answer
    ) -> AsyncIterator[Callable[[Item], Awaitable[Result]]]:
        """Ask workers on the cluster at `address`, or on one started here for them.

        An error says as `is_retryable` whether trying again may help.

        The workers are ended in the end, and so is a cluster that was started here.

        Args:
            factory: makes the call in each worker; takes nothing and must be picklable.
                Workers import what it names, so knowgate must be installed there.
            address: of a running cluster, as for `ray.init`; None starts one on this machine.
            timeout: seconds per answer, from when a worker has received the item.

        Raises:
            MissingDependencyError: Ray is not installed.
            InputError: there is no cluster at `address`, or none could be started.
            WorkerStartError: the workers could not be started.
        """
        cpus = max(1, math.ceil(self.workers * self.cpus_per_worker))
        with ray_cluster(address, cpus) as ray:
            pool = WorkerPool(ray, factory, self, timeout)
            try:
                await pool.start()
                yield pool.ask
            finally:
                await pool.close()


# Capacity of a worker that an item takes: all of it where it must be alone.
_Seat = tuple[Any, int]


class WorkerPool(Generic[Item, Result]):
    """Workers that answer items; made by `PoolSize.open`. For one event loop.

    The items of a worker that dies are asked again by others, and another worker takes
    its place, as often as `max_restarts` allows.
    """

    def __init__(
        self,
        ray: Any,
        factory: Callable[[], Callable[[Item], Awaitable[Result]]],
        size: PoolSize,
        timeout: float | None,
    ) -> None:
        self._ray, self._factory, self._size, self._timeout = ray, factory, size, timeout
        # Each worker's actor → its capacity that is taken.
        self._members: dict[Any, int] = {}
        self._changed = asyncio.Condition()
        self._restarts_left = 4 * size.workers if size.max_restarts is None else size.max_restarts
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = 0
        self._wanting_alone = 0

    async def start(self) -> None:
        """Start all workers.

        Raises:
            WorkerStartError: one of them could not be started.
        """
        starts = [asyncio.create_task(self._join()) for _ in range(self._size.workers)]
        try:
            await asyncio.gather(*starts)
        except BaseException as error:
            for task in starts:
                task.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            if isinstance(error, self._ray.exceptions.RayActorError):
                raise WorkerStartError("a worker died while it was started") from error
            raise

    async def ask(self, item: Item) -> Result:
        """The result that some worker's call gives for `item`.

        Raises:
            LanguageModelTimeoutError: it took longer than the timeout.
            WorkerLostError: several workers in a row died over this item.
            NoWorkersLeftError: no worker is left to ask.
            Exception: what the call raised; `RemoteCallError` where that cannot be pickled.
        """
        for deaths in range(_MOST_DEATHS_PER_ITEM):
            alone = deaths == _MOST_DEATHS_PER_ITEM - 1
            seat = await self._free_seat(alone=alone)
            try:
                result, error = await self._answer(seat, item)
            except self._ray.exceptions.RayActorError:
                await self._replace(seat[0])
                continue
            if error is not None:
                raise error
            return cast("Result", result)
        raise WorkerLostError(f"{_MOST_DEATHS_PER_ITEM} workers died while they processed it")

    async def close(self) -> None:
        """End all workers."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._members:
            self._kill(self._members.popitem()[0])

    async def _join(self) -> None:
        """Start one more worker."""
        size = self._size
        actor = (
            self._ray.remote(Worker)
            .options(
                num_cpus=size.cpus_per_worker,
                num_gpus=size.gpus_per_worker,
                max_concurrency=size.in_flight,
                # Replaced here: a worker that Ray restarts would lack its call.
                max_restarts=0,
                max_task_retries=0,
            )
            .remote(self._factory)
        )
        try:
            async with asyncio.timeout(size.start_timeout):
                failure = await asyncio.wrap_future(actor.start.remote().future())
            if failure is not None:
                what = f"a worker could not make its call ({type(failure).__name__}: {failure})"
                raise WorkerStartError(what) from failure
        except TimeoutError:
            self._kill(actor)
            raise WorkerStartError(
                f"a worker was not ready within {size.start_timeout:g} s — ask for fewer workers "
                "if the cluster has no CPU free for it, or for more time"
            ) from None
        except BaseException:
            self._kill(actor)
            raise
        self._members[actor] = 0

    async def _free_seat(self, *, alone: bool) -> _Seat:
        """Wait for capacity at the worker with the least to do, and take it."""
        room = self._size.in_flight if alone else 1
        async with self._changed:
            self._wanting_alone += alone
            try:
                while True:
                    if not self._members and not self._starting:
                        raise NoWorkersLeftError("all workers died; rows so far are stored")
                    chosen = min(self._members, key=self._members.__getitem__, default=None)
                    # Items that need a worker for themselves go first, or they would wait
                    # for the end of the run.
                    first = alone or not self._wanting_alone
                    if chosen is not None and first:
                        taken = self._members[chosen] + room
                        if taken <= self._size.in_flight:
                            self._members[chosen] = taken
                            return chosen, room
                    await self._changed.wait()
            finally:
                self._wanting_alone -= alone
                self._changed.notify_all()

    async def _answer(self, seat: _Seat, item: Item) -> tuple[Any, Exception | None]:
        try:
            reference = seat[0].ask.remote(item)
        except BaseException:
            # The item cannot be pickled.
            await self._leave(seat)
            raise
        waiting = asyncio.wrap_future(reference.future())
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            done, _ = await asyncio.wait({waiting}, timeout=self._timeout)
        except asyncio.CancelledError:
            self._give_up(seat, reference, waiting)
            raise
        if not done:
            self._give_up(seat, reference, waiting)
            what = f"no answer within {self._timeout:g} s"
            raise LanguageModelTimeoutError(what) from TimeoutError()
        await self._leave(seat)
        answer: tuple[Any, Exception | None] = waiting.result()
        return answer

    def _give_up(self, seat: _Seat, reference: Any, waiting: asyncio.Future[Any]) -> None:
        with contextlib.suppress(Exception):  # the worker may have ended
            self._ray.cancel(reference)
        self._in_background(self._wait_out(seat, waiting))

    async def _wait_out(self, seat: _Seat, waiting: asyncio.Future[Any]) -> None:
        """Free the capacity once the call has really ended; replace a worker where it does not."""
        done, _ = await asyncio.wait({waiting}, timeout=self._size.grace)
        if done:
            await self._leave(seat)
        else:
            await self._replace(seat[0])

    async def _leave(self, seat: _Seat) -> None:
        async with self._changed:
            actor, room = seat
            if actor in self._members:
                self._members[actor] -= room
            self._changed.notify_all()

    async def _replace(self, actor: Any) -> None:
        """Replace a dead worker; several calls may notice the same death."""
        if actor not in self._members:
            return
        del self._members[actor]
        self._kill(actor)
        self._restart()
        async with self._changed:
            self._changed.notify_all()

    def _restart(self) -> None:
        if self._restarts_left:
            self._restarts_left -= 1
            self._starting += 1
            self._in_background(self._restarted())

    async def _restarted(self) -> None:
        try:
            # If it cannot be made, the others go on; without any, waiting items fail.
            with contextlib.suppress(WorkerStartError):
                await self._join()
        except self._ray.exceptions.RayActorError:
            self._restart()
        finally:
            self._starting -= 1
            async with self._changed:
                self._changed.notify_all()

    def _kill(self, actor: Any) -> None:
        with contextlib.suppress(Exception):  # it may have ended
            self._ray.kill(actor)

    def _in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
