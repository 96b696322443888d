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
    DeadlineExceededError,
    DeadlineRunner,
    call_here,
    call_on_thread,
    check_deadline,
    within,
)
from knowgate.guard.testing import FakeEstimator, FakeScorer
from tests.support.guards import guard_with

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
    decisions = [
        await guard.adecide("q", []),
        *await guard.adecide_batch(["q"] * 2, [[]] * 2),
    ]
    assert {decision.reason for decision in decisions} == {Reason.CONFIDENCE_FAILED}


async def test_a_signal_that_answers_its_cancellation_does_not_undo_the_callers() -> None:
    estimator = StubbornEstimator()
    task = asyncio.ensure_future(guard_with(estimator=estimator).adecide("q", []))
    await estimator.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# -- calls that check their deadline ------------------------------------------------


def _passes(log: list[int], most: int = 10_000) -> None:
    for _ in range(most):
        check_deadline()
        log.append(1)
        time.sleep(0.001)


async def _abandon(runner: DeadlineRunner, work: Callable[[], None], way: str) -> None:
    if way == "sync":
        runner.call(work, SOON)
    elif way == "async":
        await runner.acall(work, SOON)
    elif way == "here":
        call_here(work, SOON)
    elif way == "native":
        await within(call_on_thread(work), SOON)
    else:
        task = asyncio.ensure_future(runner.acall(work, 60))
        await asyncio.sleep(SOON)
        task.cancel()
        await task


@pytest.mark.parametrize("way", ["sync", "async", "here", "native", "cancelled"])
async def test_an_abandoned_call_stops_at_its_next_check(way: str) -> None:
    runner, log = DeadlineRunner(max_workers=2), list[int]()
    with pytest.raises((DeadlineExceededError, asyncio.CancelledError)):
        await _abandon(runner, lambda: _passes(log), way)
    count = len(log)
    await asyncio.sleep(SOON)
    # One further pass may have been under way.
    assert 0 < len(log) <= count + 1


def test_the_deadline_of_a_joint_call_moves_with_each_check_up_to_a_bound() -> None:
    runner, log = DeadlineRunner(), list[int]()
    runner.call(lambda: _passes(log, 40), SOON, most=10)
    assert len(log) == 40
    for call in (runner.call, call_here):
        with pytest.raises(DeadlineExceededError):
            call(lambda: _passes(log), SOON, most=2 * SOON)


def test_a_call_within_an_abandoned_call_is_abandoned_as_well() -> None:
    outer, inner, ended = DeadlineRunner(), DeadlineRunner(), threading.Event()

    def waits() -> None:
        try:
            inner.call(lambda: threading.Event().wait(1), 60)
        except DeadlineExceededError:
            ended.set()

    with pytest.raises(DeadlineExceededError):
        outer.call(waits, SOON)
    assert ended.wait(0.5)
