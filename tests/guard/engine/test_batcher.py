"""The rows of several callers run together; what goes wrong with one does not reach others."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import multiprocessing
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import _process
from knowgate.guard.deadlines import (
    AllWorkersBusyError,
    DeadlineExceededError,
    DeadlineRunner,
    QueueFullError,
    TaskBrokeOffError,
    call_here,
)
from knowgate.guard.engine._batcher import Batcher

PATIENCE = 60.0


class Device:
    """Doubles numbers; works on its first batch until it is opened."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.busy, self.open = threading.Event(), threading.Event()
        self.fails: Callable[[list[int]], BaseException | None] = lambda rows: None

    def compute(self, rows: list[int]) -> list[int]:
        self.batches.append(rows)
        self.busy.set()
        assert self.open.wait(PATIENCE)
        if (error := self.fails(rows)) is not None:
            raise error
        return [2 * row for row in rows]


@pytest.fixture
def device() -> Iterator[Device]:
    found = Device()
    yield found
    found.open.set()


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(80) as threads:
        yield threads


def batcher_of(device: Device, **options: Any) -> Batcher[int, int]:
    return Batcher(device.compute, size=lambda row: 1, **options)


def counted(event: str) -> int:
    return _process.counts()[event]


class Waiting:
    """Calls behind a batch that keeps the device busy, in a known order."""

    def __init__(self, device: Device, callers: ThreadPoolExecutor, **options: Any) -> None:
        self.batcher, self._callers = batcher_of(device, **options), callers
        self.first = self.call([0])
        assert device.busy.wait(PATIENCE)

    def call(self, rows: Sequence[int]) -> Future[list[int]]:
        return self._callers.submit(self.batcher.begin(rows))


def test_a_call_that_comes_alone_is_computed_at_once(device: Device) -> None:
    device.open.set()
    batcher = batcher_of(device)
    assert batcher.begin([1, 2])() == [2, 4]
    assert batcher.begin([3])() == [6]
    assert batcher.begin([])() == []
    assert device.batches == [[1, 2], [3]]


def test_what_comes_while_the_device_is_busy_runs_together(
    device: Device, callers: ThreadPoolExecutor
) -> None:
    before = counted("batch"), counted("row")
    waiting = Waiting(device, callers)
    found = [waiting.call([n, n + 100]) for n in range(1, 65)]
    device.open.set()
    assert [one.result(PATIENCE) for one in found] == [[2 * n, 2 * n + 200] for n in range(1, 65)]
    assert waiting.first.result(PATIENCE) == [0]
    assert len(device.batches) == 2
    assert (counted("batch") - before[0], counted("row") - before[1]) == (2, 129)


async def test_coroutines_share_batches_through_worker_threads(device: Device) -> None:
    batcher, runner = batcher_of(device), DeadlineRunner()
    first = asyncio.create_task(runner.acall(batcher.begin([0]), PATIENCE))
    await asyncio.to_thread(device.busy.wait, PATIENCE)
    begun = [batcher.begin([n]) for n in (1, 2, 3)]
    tasks = [asyncio.create_task(runner.acall(wait, PATIENCE)) for wait in begun]
    device.open.set()
    assert await asyncio.gather(first, *tasks) == [[0], [2], [4], [6]]
    assert device.batches == [[0], [1, 2, 3]]


def test_batches_are_bounded_and_a_long_request_lets_others_through(
    device: Device, callers: ThreadPoolExecutor
) -> None:
    waiting = Waiting(device, callers, most_size=4)
    long = waiting.call(range(1, 8))
    short = [waiting.call([10, 11]), waiting.call([20, 21, 22])]
    device.open.set()
    assert long.result(PATIENCE) == [2 * n for n in range(1, 8)]
    assert [one.result(PATIENCE) for one in short] == [[20, 22], [40, 42, 44]]
    # The rest of what filled a batch by itself comes after those that waited.
    assert device.batches[1:] == [[1, 2, 3, 4], [10, 11, 20, 21], [22, 5, 6, 7]]


def test_a_row_larger_than_a_batch_runs_by_itself(device: Device) -> None:
    device.open.set()
    batcher = Batcher(device.compute, size=lambda row: row, most_size=10)
    assert batcher.begin([4, 99, 5, 5, 1])() == [8, 198, 10, 10, 2]
    assert device.batches == [[4], [99], [5, 5], [1]]


def test_a_full_queue_rejects_with_a_typed_error(
    device: Device, callers: ThreadPoolExecutor
) -> None:
    before = counted("queue_full")
    waiting = Waiting(device, callers, most_waiting=3)
    kept = waiting.call([1, 2])
    with pytest.raises(QueueFullError):
        waiting.batcher.begin([3, 4])
    assert issubclass(QueueFullError, AllWorkersBusyError)
    assert counted("queue_full") == before + 1
    device.open.set()
    assert kept.result(PATIENCE) == [2, 4]


def test_what_nobody_waits_for_makes_room_in_a_full_queue(
    device: Device, callers: ThreadPoolExecutor
) -> None:
    waiting = Waiting(device, callers, most_waiting=3)
    with pytest.raises(DeadlineExceededError):
        call_here(waiting.batcher.begin([1, 2, 3]), 0.0)
    kept = waiting.call([4, 5])
    device.open.set()
    assert kept.result(PATIENCE) == [8, 10]


def test_one_request_larger_than_the_queue_is_taken_when_nothing_waits(device: Device) -> None:
    device.open.set()
    assert batcher_of(device, most_waiting=3).begin(range(9))() == [2 * n for n in range(9)]


def test_requests_past_their_deadline_are_dropped_before_they_cost_anything(
    device: Device, callers: ThreadPoolExecutor
) -> None:
    before = counted("dropped")
    waiting = Waiting(device, callers)

    def call() -> list[int]:
        return waiting.batcher.begin([7])()

    with pytest.raises(DeadlineExceededError):
        call_here(call, 0.1)
    kept = waiting.call([8])
    device.open.set()
    assert kept.result(PATIENCE) == [16]
    assert device.batches == [[0], [8]]
    assert counted("dropped") == before + 1


async def test_cancelled_calls_are_dropped_and_wake_their_thread(device: Device) -> None:
    batcher, runner = batcher_of(device), DeadlineRunner()
    first = asyncio.create_task(runner.acall(batcher.begin([0]), PATIENCE))
    await asyncio.to_thread(device.busy.wait, PATIENCE)
    queued, ended = threading.Event(), threading.Event()

    def call() -> list[int]:
        wait = batcher.begin([7])
        queued.set()
        try:
            return wait()
        finally:
            ended.set()

    cancelled = asyncio.create_task(runner.acall(call, PATIENCE))
    assert await asyncio.to_thread(queued.wait, PATIENCE)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert await asyncio.to_thread(ended.wait, PATIENCE)
    device.open.set()
    assert await first == [0]
    assert batcher.begin([8])() == [16]
    assert device.batches == [[0], [8]]


def test_a_poisoned_request_fails_alone(device: Device, callers: ThreadPoolExecutor) -> None:
    before = counted("retried_apart")
    waiting = Waiting(device, callers)
    device.fails = lambda rows: ValueError("poison") if 13 in rows else None
    found = {n: waiting.call([n, n]) for n in (11, 12, 13, 14)}
    device.open.set()
    with pytest.raises(ValueError, match="poison"):
        found.pop(13).result(PATIENCE)
    assert {n: one.result(PATIENCE) for n, one in found.items()} == {
        n: [2 * n, 2 * n] for n in (11, 12, 14)
    }
    assert counted("retried_apart") == before + 1
    assert waiting.batcher.begin([1])() == [2]


@pytest.mark.parametrize("poison", [13, 999])
def test_a_worker_that_dies_is_replaced_and_its_batch_computed(
    device: Device, callers: ThreadPoolExecutor, poison: int
) -> None:
    before = counted("worker_restarted")
    waiting = Waiting(device, callers)
    deaths = iter([SystemExit()] if poison == 999 else [])
    device.fails = lambda rows: SystemExit() if poison in rows else next(deaths, None)
    found = {n: waiting.call([n]) for n in (11, 12, 13)}
    device.open.set()
    if poison == 13:
        with pytest.raises(TaskBrokeOffError):
            found.pop(13).result(PATIENCE)
        assert waiting.first.result(PATIENCE) == [0]
    else:
        with pytest.raises(TaskBrokeOffError):
            waiting.first.result(PATIENCE)
    assert {n: one.result(PATIENCE) for n, one in found.items()} == {n: [2 * n] for n in found}
    assert counted("worker_restarted") == before + (2 if poison == 13 else 1)


def test_a_worker_killed_while_it_is_idle_is_replaced(device: Device) -> None:
    device.open.set()
    batcher = batcher_of(device)
    assert batcher.begin([1])() == [2]
    thread = batcher._queue._thread
    assert thread is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    )
    # It dies when it wakes up, with or without having taken this.
    assert batcher.begin([2])() == [4]
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert batcher.begin([3])() == [6]


def test_a_result_for_every_row_is_demanded(callers: ThreadPoolExecutor) -> None:
    batcher: Batcher[int, int] = Batcher(lambda rows: rows[:-1], size=lambda row: 1)
    with pytest.raises(ValueError, match="1 results for 2 rows"):
        batcher.begin([1, 2])()


def test_the_worker_ends_with_its_batcher(device: Device) -> None:
    device.open.set()
    batcher = batcher_of(device)
    batcher.begin([1])()
    thread, gone = batcher._queue._thread, weakref.ref(batcher)
    assert thread is not None
    del batcher
    gc.collect()
    assert gone() is None
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_a_worker_of_its_own(
    device: Device, callers: ThreadPoolExecutor
) -> None:
    waiting = Waiting(device, callers)
    queued = waiting.call([1])

    def child() -> None:
        device.open = threading.Event()
        device.open.set()
        # The parent's queue may have been locked at the fork; it is left alone.
        parents = waiting.batcher._queue
        parents._changed = threading.Condition(threading.Lock())
        parents._changed.acquire()
        parents.end()
        # Nothing of what waits in the parent is computed here.
        os._exit(0 if waiting.batcher.begin([5])() == [10] and device.batches[1:] == [[5]] else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    process.join(PATIENCE)
    assert process.exitcode == 0
    device.open.set()
    assert queued.result(PATIENCE) == [2]


def test_at_exit_callers_are_woken_and_new_calls_rejected(
    device: Device, callers: ThreadPoolExecutor
) -> None:
    waiting = Waiting(device, callers)
    queued = waiting.call([1])
    [thread] = waiting.batcher._queue.end_at_exit()
    for one in (waiting.first, queued):
        with pytest.raises(DeadlineExceededError):
            one.result(PATIENCE)
    with pytest.raises(AllWorkersBusyError):
        waiting.batcher.begin([2])
    device.open.set()
    thread.join(PATIENCE)
    assert device.batches == [[0]]


@settings(max_examples=25, deadline=None)
@given(
    requests=st.lists(st.lists(st.integers(1, 9), max_size=6), min_size=1, max_size=12),
    most=st.integers(1, 12),
)
def test_each_caller_gets_its_own_results_in_order(requests: list[list[int]], most: int) -> None:
    device = Device()
    batcher: Batcher[int, int] = Batcher(device.compute, size=lambda row: row, most_size=most)
    begun = [batcher.begin(rows) for rows in requests]
    device.open.set()
    assert [wait() for wait in begun] == [[2 * row for row in rows] for rows in requests]
    assert all(sum(batch) <= most or len(batch) == 1 for batch in device.batches)
    assert sum(map(len, device.batches)) == sum(map(len, requests))
