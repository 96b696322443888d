"""Calls that cost money: many items at once, within limits, one row in a table for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, Field
from pydantic.dataclasses import dataclass as checked_dataclass
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from ...adapters.ray.cluster import NoWorkersLeftError
from ...adapters.ray.pool import PoolSize
from ...guard.contracts import Generation, LanguageModel, PartialGenerationsError
from ...guard.deadlines import asked_to_stop, within
from ...guard.errors import (
    DeadlineExceededError,
    InputError,
    KnowgateError,
    LanguageModelError,
    LanguageModelTimeoutError,
    is_transient,
)
from ...guard.read_models import CheckedSettings
from .event_loop import run_interruptibly
from .questions import raised_in
from .rows import UnstorableRowError
from .table import Table

_SPENT = ("input_tokens", "output_tokens", "calls")


@dataclass(slots=True)
class Progress:
    """How far the items of a stage are: after each stored row, and at the end.

    Attributes:
        stage: what is being done, such as `asking`; empty where there is one stage only.
        total: items of the stage.
        already: items that the table held before.
        stored: rows that this run added.
        failed: those of them with an error.
        input_tokens: of the added rows that state any, None where none does.
        output_tokens: likewise.
        calls: likewise.
        began: time of a monotonic clock.
    """

    stage: str
    total: int
    already: int = 0
    stored: int = 0
    failed: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    calls: int | None = None
    began: float = field(default_factory=time.monotonic, repr=False, compare=False)

    @property
    def done(self) -> int:
        """Items that are stored, those of earlier runs included."""
        return self.already + self.stored

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self.began

    def add(self, row: Mapping[str, Any] | BaseModel, *, failed: bool) -> None:
        """Count a row that is on disk."""
        self.stored += 1
        self.failed += failed
        self._spend(row)

    def include(self, other: Progress) -> None:
        """Count what another stage came to, too."""
        for name in ("total", "already", "stored", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._spend(other)

    def _spend(self, on: object) -> None:
        for name in _SPENT:
            if isinstance(number := _value(on, name), int):
                setattr(self, name, (getattr(self, name) or 0) + number)


# Called with the number of items done, and of all items.
OnStep = Callable[[int, int], None]

# Called after every stored row; what it raises ends the run.
OnProgress = Callable[[Progress], object]


_Result = TypeVar("_Result")
_LONGEST_WAIT = 60.0


_AtLeastOne = Annotated[int, Field(ge=1)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@checked_dataclass(frozen=True, slots=True)
class CallLimits(CheckedSettings):
    """How calls are made; none of it changes what is asked.

    Attributes:
        max_concurrency: most items under way at once, at least 1.
        rate: most attempts per second, evenly spaced; None for no limit.
        timeout: seconds per attempt, None for no limit.
        max_attempts: per item, at least 1.
        first_wait: seconds before the second attempt, doubled from there up to a minute;
            up to as much as `first_wait` is added at random, so that calls do not come
            back all at once.
        retry_on: exceptions worth another attempt besides the transient ones: missed
            deadlines, connection errors, retryable HTTP statuses.
        stop_on: exceptions that end the run and become no row: those that every further
            call would meet, too.

    Raises:
        InputError: a number is out of range.
    """

    max_concurrency: _AtLeastOne = 8
    rate: _Positive | None = None
    timeout: _Positive | None = 120.0
    max_attempts: _AtLeastOne = 3
    first_wait: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.25
    retry_on: tuple[type[Exception], ...] = ()
    stop_on: tuple[type[Exception], ...] = ()

    async def attempt(self, attempt: Callable[[], Awaitable[_Result]], rate: RateLimit) -> _Result:
        """Return the result of the first attempt that succeeds.

        Raises:
            LanguageModelTimeoutError: the last attempt took too long.
            Exception: what the last attempt raised.
        """

        async def timed() -> _Result:
            await rate.wait()
            return await self._within_deadline(attempt)

        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.max_attempts),
            wait=wait_exponential(self.first_wait, _LONGEST_WAIT) + wait_random(0, self.first_wait),
            retry=retry_if_exception_type(self.retry_on) | retry_if_exception(is_transient),
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


class RateLimit:
    """A token bucket that holds one token: no burst, whatever came before.

    Calls start in the order in which they came. One that starts late by less than an
    interval does not delay the others, so that the rate is kept on average; after a
    longer delay, such as a blocked event loop, calls are an interval apart again.

    Args:
        per_second: calls, None for no limit.
    """

    def __init__(self, per_second: float | None) -> None:
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


_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


def generate_each(
    lm: LanguageModel,
    prompts: Sequence[str],
    *,
    n: int = 1,
    temperature: float = 0.0,
    seed: int | None = None,
) -> list[list[Generation] | KnowgateError]:
    """Generate `n` texts for each prompt; an error in the place of those that failed.

    Equal prompts are asked once. If a call fails for some prompts, the others' texts are
    kept and the failed ones are not asked again: such a model has retried them itself. If a
    call fails as a whole, its prompts are asked one by one.

    Args:
        lm: the model.
        prompts: any number.
        n: generations per prompt.
        temperature: 0 for greedy answers.
        seed: of the first generation to each prompt.

    Raises:
        InputError: an argument is out of the model's range.
    """

    def call(some: Sequence[str]) -> list[list[Generation] | KnowgateError]:
        try:
            rows = lm.generate(some, n=n, temperature=temperature, seed=seed)
        except PartialGenerationsError as error:
            return [
                list(row) if len(row) == n else cause or error
                for row, cause in zip(error.generations, error.errors, strict=True)
            ]
        if any(len(row) != n for row in rows):
            raise LanguageModelError(f"the model gave another number of answers than {n}")
        return list(rows)

    different = list(dict.fromkeys(prompts))
    found = dict(zip(different, each_or_error(call, different), strict=True))
    return [found[prompt] for prompt in prompts]


def each_or_error(
    call: Callable[[Sequence[_Item]], Sequence[_Found | KnowgateError]], items: Sequence[_Item]
) -> list[_Found | KnowgateError]:
    """Call for all items together; if that fails, for each item by itself.

    Args:
        call: gives one value, or an error, per item, in order.
        items: any number.

    Returns:
        For each item its value, or the error that its own call raised.

    Raises:
        InputError: an argument is out of the model's range.
    """
    if not items:
        return []
    try:
        found = list(call(items))
        if len(found) != len(items):
            raise LanguageModelError(f"the model gave {len(found)} answers to {len(items)} prompts")
        return found
    except InputError:
        # Of the arguments, not of one prompt.
        raise
    except KnowgateError as error:
        failure = error
    except Exception as error:  # noqa: BLE001 - a foreign model may raise anything
        # The message of a foreign error may quote the prompt: only its type is kept.
        failure = LanguageModelError(f"{type(error).__name__} was {raised_in(error)}")
        failure.__cause__ = error
    if len(items) == 1:
        return [failure]
    return [found for item in items for found in each_or_error(call, [item])]


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
    ) -> Progress:
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
        everything: dict[str, Item] = {}
        for item in items:
            name = self.key(item)
            if name in everything:
                raise InputError(f"two items have the key {name[:80]!r}", where="items")
            everything[name] = item
        todo = [(name, item) for name, item in everything.items() if name not in table.done]
        so_far = Progress(self.stage, len(everything), len(everything) - len(todo))
        rate = RateLimit(self.limits.rate)
        queue = iter(todo)

        async def ask_next() -> None:
            for name, item in queue:
                row, no_answer = await self._stored(name, item, partial(call, item), table, rate)
                so_far.add(row, failed=no_answer)
                if self.on_progress is not None:
                    self.on_progress(replace(so_far))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.limits.max_concurrency, len(todo))):
                    group.create_task(ask_next())
        except BaseExceptionGroup as several:
            first: BaseException = several
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from None
        return so_far

    async def _stored(
        self,
        name: str,
        item: Item,
        call: Callable[[], Awaitable[Row]],
        table: Table[Any],
        rate: RateLimit,
    ) -> tuple[Row, bool]:
        """Store the row of an item, or of its failure; return it, and whether it failed."""
        try:
            row = await self.limits.attempt(call, rate)
        except self.limits.stop_on:
            raise
        except Exception as error:  # noqa: BLE001 - becomes a row
            failure = error
        else:
            try:
                _append(name, row, table)
                return row, False
            except UnstorableRowError as error:
                failure = error
        row = self.failed(item, failure)
        try:
            _append(name, row, table)
        except UnstorableRowError as refusal:
            raise ValueError("`failed` made a row that cannot be stored") from refusal
        return row, True

    def run_sync(
        self, items: Iterable[Item], call: Callable[[Item], Awaitable[Row]], table: Table[Any]
    ) -> Progress:
        """Do as `run`, where no event loop runs.

        Raises:
            KeyboardInterrupt: Ctrl-C; calls under way were given up, their items are asked
                next time. Rows that were handed to the table are whole.
            SystemExit: likewise, with code 143, on SIGTERM.
        """
        return run_interruptibly(self.run(items, call, table))


def _append(name: str, row: Row, table: Table[Any]) -> None:
    if not isinstance(row, Mapping | BaseModel) or _value(row, table.key) != name:
        what = f"the call made no row whose {table.key!r} is that of its item"
        raise UnstorableRowError(what, where=f"row {name[:80]!r}")
    table.append(row)


def _value(row: object, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)


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

    def open(
        self, factory: Callable[[], Callable[[Any], Awaitable[Any]]], limits: CallLimits
    ) -> AbstractAsyncContextManager[Callable[[Any], Awaitable[Any]]]:
        """Start the workers, and end them at the end; gives what asks one of them.

        Args:
            factory: makes the call in each worker; takes nothing and must be picklable.
            limits: of the calls; a timeout counts from when a worker has got the item.

        Raises:
            MissingDependencyError: Ray is not installed.
            WorkerStartError: the workers could not be started.
            InputError: there is no cluster at the address.
        """
        return self.size.open(factory, address=self.address, timeout=limits.timeout)

    async def run(
        self,
        calls: Calls[Item],
        items: Iterable[Item],
        factory: Callable[[], Callable[[Any], Awaitable[Row]]],
        table: Table[Any],
        send: Callable[[Item], Any] = lambda item: item,
    ) -> Progress:
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
            # Nothing is called, and no worker needed.
            return await here.run(items, send, table)
        async with self.open(factory, calls.limits) as ask:
            return await here.run(items, lambda item: ask(send(item)), table)


# As a suite is run: a case may take what it takes.
NO_TIMEOUT = CallLimits(timeout=None)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is made; none of it decides the rows.

    Attributes:
        limits: of calls; None for what is usual. Of a suite that answers in batches only the
            timeout counts here (seconds per case; usually none); how many calls are made at once
            is up to the model.
        retry_failed: ask again for rows with an error.
        pool: workers on a Ray cluster that answer or judge; None for this process.
        on_progress: called after every stored row.
        on_note: called with what the user should know.
    """

    limits: CallLimits | None = None
    retry_failed: bool = False
    pool: RayPool | None = None
    on_progress: OnProgress | None = None
    on_note: Callable[[str], object] | None = None

    def limits_or(self, usual: CallLimits) -> CallLimits:
        """Return the limits, or the usual ones where none are named."""
        return self.limits or usual
