"""A burst of questions waits for its turn; waiting is no failure, and has a bound."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from knowgate.guard import Decision, Guard, Reason, Route
from knowgate.guard.deadlines import Turns, check_deadline
from knowgate.guard.errors import NoTurnError, SignalWaitError
from knowgate.guard.testing import FakeScorer
from tests.support.deadlines import auntil, awith_enough_time, with_enough_time
from tests.support.guards import guard_with

BURST = 50
SOON = 0.05


class ExclusiveScorer(FakeScorer):
    """Computes one question at a time, as a CPU that all share."""

    def __init__(self, seconds: float) -> None:
        super().__init__(default=0.9)
        self._seconds, self._cpu = seconds, threading.Lock()

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        with self._cpu:
            time.sleep(self._seconds * len(pairs))
        return super().score_pairs(pairs)


class HangingScorer(FakeScorer):
    """Hangs on passages that say so, until the gate opens."""

    def __init__(self) -> None:
        super().__init__(default=0.9)
        self.gate, self.begun = threading.Event(), 0

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        if any("hang" in passage for _, passage in pairs):
            self.begun += 1
            self.gate.wait(60)
        return super().score_pairs(pairs)


@pytest.fixture
def hanging() -> Iterator[HangingScorer]:
    """A scorer whose calls end with the test."""
    scorer = HangingScorer()
    yield scorer
    scorer.gate.set()


def burst_guard(seconds: float, questions: int = 4) -> Guard:
    """A guard whose scorer has time for so many questions within the deadline of one."""
    scorer = ExclusiveScorer(seconds / questions)
    return guard_with(scorer=scorer, deadlines={"relevance": seconds})


def require_all_decided(decisions: Sequence[Decision]) -> None:
    assert [decision.reason for decision in decisions] == [Reason.SUFFICIENT_CONTEXT] * BURST


def test_a_burst_of_threads_is_decided_though_each_waits_longer_than_its_deadline() -> None:
    def check(seconds: float) -> None:
        guard = burst_guard(seconds)
        with ThreadPoolExecutor(BURST) as threads:
            found = list(
                threads.map(lambda number: guard.decide(f"q{number}", ["p"]), range(BURST))
            )
        require_all_decided(found)

    with_enough_time(check)


async def test_a_burst_of_coroutines_is_decided_though_each_waits_longer_than_its_deadline() -> (
    None
):
    async def check(seconds: float) -> None:
        guard = burst_guard(seconds)
        require_all_decided(
            await asyncio.gather(*(guard.adecide(f"q{n}", ["p"]) for n in range(BURST)))
        )

    await awith_enough_time(check)


async def test_batches_at_the_same_time_are_decided_though_they_wait_for_each_other() -> None:
    async def check(seconds: float) -> None:
        # Together they take more than the two deadlines that each of them has.
        guard = burst_guard(seconds, 20)
        batches = await asyncio.gather(
            *(guard.adecide_batch(["q"] * 10, [["p"]] * 10) for _ in range(5))
        )
        require_all_decided([decision for batch in batches for decision in batch])

    await awith_enough_time(check)


def one_at_a_time(scorer: FakeScorer, **changes: Any) -> Guard:
    return guard_with(scorer=scorer, at_once={"relevance": 1}, **changes)


async def test_a_measurement_that_hangs_ends_at_its_deadline_and_the_next_has_its_turn(
    hanging: HangingScorer,
) -> None:
    async def check(seconds: float) -> None:
        guard = one_at_a_time(hanging, deadlines={"relevance": seconds})
        stuck, waited = await asyncio.gather(
            guard.adecide("q", ["hang"]), guard.adecide("q", ["fine"])
        )
        assert stuck.reason is Reason.RELEVANCE_FAILED
        assert seconds <= stuck.timings["relevance"]
        assert waited.route is Route.FOLLOW_CONTEXT

    await awith_enough_time(check)


async def test_a_question_does_not_wait_for_ever(
    hanging: HangingScorer, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    guard = one_at_a_time(hanging, max_wait=SOON, on_error="raise", metrics=True, registry=registry)
    with ThreadPoolExecutor(1) as threads:
        stuck = threads.submit(guard.decide, "q", ["hang"])
        await auntil(lambda: hanging.begun == 1)
        with caplog.at_level(logging.WARNING), pytest.raises(SignalWaitError):
            guard.decide("q", ["fine"])
        with pytest.raises(SignalWaitError):
            await guard.adecide("q", ["fine"])
        [waited, _] = guard.decide_each(["q"] * 2, [["fine"]] * 2)
        assert isinstance(waited, SignalWaitError)
        hanging.gate.set()
        assert stuck.result().route is Route.FOLLOW_CONTEXT
    assert "GuardOptions(max_wait=…, at_once={'relevance': …})" in caplog.text
    labels = {"guard": "default", "signal": "relevance", "kind": "wait"}
    assert registry.get_sample_value("knowgate_errors_total", labels) == 4
    assert registry.get_sample_value("knowgate_queue_depth", {"queue": "turns"}) == 0


async def test_a_question_that_is_cancelled_while_it_waits_takes_no_turn(
    hanging: HangingScorer,
) -> None:
    guard = one_at_a_time(hanging)
    stuck = asyncio.ensure_future(guard.adecide("q", ["hang"]))
    await auntil(lambda: hanging.begun == 1)
    left = asyncio.ensure_future(guard.adecide("q", ["hang"]))
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    hanging.gate.set()
    assert (await stuck).route is Route.FOLLOW_CONTEXT
    assert hanging.begun == 1
    assert (await guard.adecide("q", ["fine"])).route is Route.FOLLOW_CONTEXT


def test_the_log_names_the_deadline_to_change(
    hanging: HangingScorer, caplog: pytest.LogCaptureFixture
) -> None:
    guard = guard_with(scorer=hanging, deadlines={"relevance": 0.01})
    guard.decide("Which deadline does relevance have?", ["hang: not done by its deadline"])
    assert "not done by its deadline (GuardOptions(deadlines={'relevance': 0.01}))" in caplog.text


class SlowerScorer(FakeScorer):
    """Takes no time for passages that are easy, and twice the deadline for others."""

    checks_deadline = True

    def __init__(self, deadline: float) -> None:
        super().__init__(default=0.9)
        self._seconds = 2 * deadline

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        for _ in range(sum("hard" in passage for _, passage in pairs)):
            ends = time.monotonic() + self._seconds
            while time.monotonic() < ends:
                time.sleep(self._seconds / 50)
                check_deadline()
        return super().score_pairs(pairs)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_of_a_batch_that_gets_too_slow_what_was_done_is_kept_and_the_rest_ends_soon(
    asynchronous: bool,
) -> None:
    questions, passages = ["q"] * 64, [["easy"]] * 38 + [["hard"]] * 26

    async def check(seconds: float) -> None:
        guard = guard_with(scorer=SlowerScorer(seconds), deadlines={"relevance": seconds})
        started = time.monotonic()
        if asynchronous:
            decisions = await guard.adecide_batch(questions, passages)
        else:
            decisions = guard.decide_batch(questions, passages)
        assert [d.route is Route.FOLLOW_CONTEXT for d in decisions] == [True] * 38 + [False] * 26
        assert {d.reason for d in decisions[38:]} == {Reason.RELEVANCE_FAILED}
        assert time.monotonic() - started < 3 * seconds

    await awith_enough_time(check)


# -- turns by themselves ------------------------------------------------------------


def test_more_are_measured_at_once_while_each_ends_well_within_its_deadline() -> None:
    turns = Turns(4, None)
    widths = []
    with ThreadPoolExecutor(8) as threads:
        for _ in range(turns.width):
            turns.take()
        for _ in range(4):
            other = threads.submit(turns.take)
            while not len(turns):
                time.sleep(0.001)
            turns.end(0.1)
            other.result()
            # One that ended let two begin, up to the most.
            widths.append(turns.width)
            while turns.begun < turns.width:
                turns.take()
    assert widths == [3, 4, 4, 4]


def test_where_nobody_waits_no_more_are_measured_at_once() -> None:
    turns = Turns(4, None)
    turns.take()
    turns.end(0.1)
    assert turns.width == 2


def test_fewer_are_measured_at_once_where_deadlines_are_missed() -> None:
    turns = Turns(8, None)
    for _ in range(3):
        turns.take()
        turns.end(1.0)
    assert turns.width == 1


@pytest.mark.parametrize("share", [None, 0.4])
def test_what_tells_nothing_changes_nothing(share: float | None) -> None:
    turns = Turns(8, None)
    turns.take()
    turns.end(share)
    assert turns.width == 2


def test_a_fixed_number_is_measured_at_once_however_long_it_takes() -> None:
    turns = Turns(3, None, fixed=True)
    turns.take()
    turns.end(1.0)
    assert turns.width == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_turns_of_its_own() -> None:
    turns = Turns(1, SOON)
    turns.take()
    with pytest.raises(NoTurnError):
        turns.take()
    if (child := os.fork()) == 0:
        os._exit(0 if turns._took_free() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_event_loop_that_was_closed_takes_no_turn() -> None:
    turns = Turns(1, None)
    turns.take()
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(turns.atake())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    turns.end()
    turns.take()  # at once
    with pytest.raises(RuntimeError):
        waiting.get_coro().throw(RuntimeError())
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]
