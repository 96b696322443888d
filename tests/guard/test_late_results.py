"""What comes after its deadline, or in reply to a cancellation, is not an answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.guard import Confidence, Reason
from knowgate.guard.deadlines import (
    DeadlineRunner,
    call_here,
    call_on_thread,
    check_deadline,
    within,
)
from knowgate.guard.errors import DeadlineExceededError
from knowgate.guard.testing import FakeScorer
from tests.support.deadlines import awith_enough_time, with_enough_time
from tests.support.fakes import FakeConflictDetector, FakeEstimator
from tests.support.guards import guard_with, policy_with

SOON = 0.02


class LateScorer(FakeScorer):
    """Checks its deadline at the start only, and answers after it."""

    checks_deadline = True

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        check_deadline()
        time.sleep(2 * SOON)
        return np.full(len(pairs), 0.9)


async def test_a_score_that_comes_after_its_deadline_is_not_accepted() -> None:
    guard = guard_with(scorer=LateScorer(), deadlines={"relevance": SOON})
    decisions = [
        guard.decide("q", ["p"]),
        await guard.adecide("q", ["p"]),
        *guard.decide_batch(["q"] * 2, [["p"]] * 2),
        *await guard.adecide_batch(["q"] * 2, [["p"]] * 2),
    ]
    assert {decision.reason for decision in decisions} == {Reason.RELEVANCE_FAILED}


class BlockingEstimator(FakeEstimator):
    """Blocks the event loop beyond its deadline."""

    async def aestimate(self, question: str) -> Confidence:
        time.sleep(2 * SOON)  # noqa: ASYNC251 - the fault
        return Confidence(1.0, "late")


class StubbornEstimator(FakeEstimator):
    """Takes its cancellation for a reason to answer."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def aestimate(self, question: str) -> Confidence:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return Confidence(1.0, "")
        raise AssertionError


@pytest.mark.parametrize("kind", [BlockingEstimator, StubbornEstimator])
async def test_a_confidence_that_comes_after_its_deadline_is_not_accepted(
    kind: type[FakeEstimator],
) -> None:
    guard = guard_with(estimator=kind(), deadlines={"confidence": SOON})
    decisions = [await guard.adecide("q", []), *await guard.adecide_batch(["q"] * 2, [[]] * 2)]
    assert {decision.reason for decision in decisions} == {Reason.CONFIDENCE_FAILED}


async def test_a_signal_that_answers_its_cancellation_does_not_undo_the_callers() -> None:
    estimator = StubbornEstimator()
    task = asyncio.ensure_future(guard_with(estimator=estimator).adecide("q", []))
    await estimator.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# -- calls that check their deadline ------------------------------------------------


@pytest.mark.parametrize("checks", [True, False])
def test_signals_that_check_their_deadline_are_measured_on_the_callers_thread(checks: bool) -> None:
    threads: set[int] = set()

    class Scorer(FakeScorer):
        checks_deadline = checks

        def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
            threads.add(threading.get_ident())
            return super().score_pairs(pairs)

    class Estimator(FakeEstimator):
        checks_deadline = checks

        def estimate(self, question: str) -> Confidence:
            threads.add(threading.get_ident())
            return super().estimate(question)

    class Detector(FakeConflictDetector):
        checks_deadline = checks

        def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
            threads.add(threading.get_ident())
            return super().detect(question, closed_book_answer, passages)

    guard = guard_with(
        policy_with(check_conflict=True),
        scorer=Scorer(default=0.9),
        estimator=Estimator(default=0.9),
        conflict_detector=Detector(),
    )
    assert guard.decide("q", ["p"]).failed_signals == ()
    here = threading.get_ident()
    assert threads == {here} if checks else threads and here not in threads


def _passes(log: list[int], seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        check_deadline()
        log.append(1)
        time.sleep(0.001)


async def _abandon(
    runner: DeadlineRunner, work: Callable[[], None], way: str, seconds: float
) -> None:
    if way == "sync":
        runner.call(work, seconds)
    elif way == "async":
        await runner.acall(work, seconds)
    elif way == "here":
        call_here(work, seconds)
    elif way == "native":
        await within(call_on_thread(work), seconds)
    else:
        task = asyncio.ensure_future(runner.acall(work, 60))
        await asyncio.sleep(seconds)
        task.cancel()
        await task


@pytest.mark.parametrize("way", ["sync", "async", "here", "native", "cancelled"])
async def test_an_abandoned_call_stops_at_its_next_check(way: str) -> None:
    async def check(seconds: float) -> None:
        runner, log = DeadlineRunner(max_workers=2), list[int]()
        with pytest.raises((DeadlineExceededError, asyncio.CancelledError)):
            await _abandon(runner, lambda: _passes(log), way, seconds)
        count = len(log)
        await asyncio.sleep(SOON)
        # One further pass may have been under way.
        assert 0 < len(log) <= count + 1

    await awith_enough_time(check)


def test_a_call_within_an_abandoned_call_is_abandoned_as_well() -> None:
    outer, inner, ended = DeadlineRunner(), DeadlineRunner(), threading.Event()
    begun, released = threading.Event(), threading.Event()

    def hangs() -> None:
        begun.set()
        released.wait(60)

    def waits() -> None:
        try:
            inner.call(hangs, 60)
        except DeadlineExceededError:
            ended.set()

    def check(seconds: float) -> None:
        with pytest.raises(DeadlineExceededError):
            outer.call(waits, seconds)
        assert begun.is_set()

    try:
        with_enough_time(check)
        assert ended.wait(30)
    finally:
        released.set()
