"""Deadlines hold, threads are bounded, and cancelling leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from knowgate.guard import Confidence, Fingerprint, Guard, Reason, Route, SignalTimeoutError
from knowgate.guard.deadlines import DeadlineRunner
from knowgate.guard.errors import (
    AllWorkersBusyError,
    DeadlineExceededError,
    SignalOverloadError,
    TaskBrokeOffError,
)
from knowgate.guard.testing import FakeScorer
from tests.support.deadlines import awith_enough_time
from tests.support.fakes import FakeEstimator, SlowScorer
from tests.support.guards import guard_with, policy_with

SOON = 0.05


def signal_threads() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name == "knowgate-signal"}


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it comes true within a time that only a hung test exceeds."""
    for _ in range(2000):
        if condition():
            return True
        time.sleep(0.005)
    return False


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What stuck calls wait for; opened at the end, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


class GatedScorer(FakeScorer):
    """Hangs on passages that say so, until the gate opens."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__(default=0.9)
        self._gate = gate

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        if any("hang" in passage for _, passage in pairs):
            self._gate.wait(60)
        return super().score_pairs(pairs)


def gated_guard(gate: threading.Event, **changes: Any) -> Guard:
    parts: dict[str, Any] = {"scorer": GatedScorer(gate), "deadlines": {"relevance": SOON}}
    return guard_with(**(parts | changes))


async def test_a_slow_scorer_is_left_behind_in_every_form(gate: threading.Event) -> None:
    guard = gated_guard(gate)
    for decision in (
        guard.decide("q", ["hang"]),
        await guard.adecide("q", ["hang"]),
        *guard.decide_batch(["q"], [["hang"]]),
        *await guard.adecide_batch(["q"], [["hang"]]),
    ):
        assert (decision.route, decision.reason) == (Route.ABSTAIN, Reason.RELEVANCE_FAILED)
        assert decision.failed_signals == ("relevance",)


async def test_a_missed_deadline_is_typed_and_counted(gate: threading.Event) -> None:
    registry = CollectorRegistry()
    guard = gated_guard(gate, on_error="raise", metrics=True, registry=registry)
    with pytest.raises(SignalTimeoutError):
        guard.decide("q", ["hang"])
    with pytest.raises(SignalTimeoutError):
        await guard.adecide("q", ["hang"])
    labels = {"guard": "default", "signal": "relevance", "kind": "timeout"}
    assert registry.get_sample_value("knowgate_errors_total", labels) == 2


async def test_one_hanging_question_does_not_spoil_its_batch(gate: threading.Event) -> None:
    collections = [["fine"], ["hang"], ["fine"]]

    async def check(seconds: float) -> None:
        guard = gated_guard(gate, deadlines={"relevance": seconds})
        for decisions in (
            guard.decide_batch(["q"] * 3, collections),
            await guard.adecide_batch(["q"] * 3, collections),
        ):
            routes = [decision.route.value for decision in decisions]
            assert routes == ["follow_context", "abstain", "follow_context"]

    await awith_enough_time(check)


def test_a_slow_scorer_within_its_deadline_is_waited_for() -> None:
    guard = guard_with(scorer=SlowScorer(0.02), estimator=FakeEstimator(default=1.0))
    assert guard.decide("q", ["p"]).reason is Reason.CONFIDENT_MEMORY


def test_calls_one_after_the_other_use_one_thread() -> None:
    before = signal_threads()
    guard = guard_with(scorer=FakeScorer(default=0.9))
    for _ in range(200):
        guard.decide("q", ["p"])
    assert len(signal_threads() - before) == 1


@pytest.mark.slow
def test_the_threads_end_with_the_guard() -> None:
    before = signal_threads()
    guard = guard_with(scorer=FakeScorer(default=0.9))
    guard.decide_batch(["q"] * 3, [["p"]] * 3)
    guard.decide("q", ["p"])
    assert signal_threads() - before
    del guard
    gc.collect()
    assert eventually(lambda: not signal_threads() - before)


def test_when_every_thread_is_stuck_further_calls_are_refused_at_once(
    gate: threading.Event,
) -> None:
    runner, begun = DeadlineRunner(max_workers=3), threading.Semaphore(0)
    before = signal_threads()

    def hang() -> None:
        begun.release()
        gate.wait(60)

    def call_until_begun() -> None:
        with pytest.raises(DeadlineExceededError):
            runner.call(hang, SOON)
        assert begun.acquire(blocking=False)

    for _ in range(3):
        assert eventually(lambda: _holds(call_until_begun))
    with pytest.raises(AllWorkersBusyError):
        runner.call(lambda: 1, 3600)
    assert len(signal_threads() - before) <= 3
    gate.set()
    assert eventually(lambda: _answers(runner))


def _holds(check: Callable[[], None]) -> bool:
    try:
        check()
    except AssertionError:
        return False
    return True


def _answers(runner: DeadlineRunner) -> bool:
    try:
        return runner.call(lambda: True, 60)
    except AllWorkersBusyError:
        return False


async def test_a_guard_whose_threads_are_all_stuck_says_overload(gate: threading.Event) -> None:
    scorer = _CountingScorer(gate)
    guard = gated_guard(gate, scorer=scorer, on_error="raise", deadlines={"relevance": 0.01})
    for _ in range(2000):  # a busy machine may not begin a call before its deadline
        if scorer.begun == 64:
            break
        with pytest.raises((SignalTimeoutError, SignalOverloadError)):
            guard.decide("q", ["hang"])
    assert scorer.begun == 64
    with pytest.raises(SignalOverloadError):
        await guard.adecide("q", ["hang"])
    with pytest.raises(SignalOverloadError):
        guard.decide_batch(["q"], [["fine"]])
    with pytest.raises(SignalOverloadError):
        await guard.adecide_batch(["q"], [["fine"]])


async def test_a_burst_of_healthy_calls_is_queued_not_refused() -> None:
    guard = guard_with(scorer=SlowScorer(0.002), estimator=FakeEstimator(default=1.0))
    decisions = await asyncio.gather(*(guard.adecide("q", ["p"]) for _ in range(300)))
    assert {d.reason for d in decisions} == {Reason.CONFIDENT_MEMORY}


def test_a_queued_call_that_no_thread_takes_up_in_time_is_an_overload(
    gate: threading.Event,
) -> None:
    runner = DeadlineRunner(max_workers=1)
    begun = threading.Event()

    def hold() -> None:
        begun.set()
        gate.wait(60)

    holder = threading.Thread(target=lambda: runner.call(hold, 60))
    holder.start()
    begun.wait(60)
    ran: list[int] = []
    with pytest.raises(AllWorkersBusyError):
        runner.call(lambda: ran.append(1), SOON)
    gate.set()
    holder.join(60)
    assert runner.call(lambda: 2, 60) == 2
    assert ran == []


def test_more_language_model_calls_at_once_than_threads_by_default() -> None:
    entered = threading.Barrier(100, timeout=50)

    class Meeting(FakeEstimator):
        def estimate(self, question: str) -> Confidence:
            entered.wait()
            return Confidence(0.9, "answer")

    guard = guard_with(estimator=Meeting(), max_concurrency=100)
    decisions = guard.decide_batch(["q"] * 100, [[]] * 100)
    assert {d.route for d in decisions} == {Route.ANSWER}


async def test_waiting_for_a_blocking_scorer_leaves_the_event_loop_free(
    gate: threading.Event,
) -> None:
    guard = gated_guard(gate, deadlines={})
    pending = asyncio.ensure_future(guard.adecide("q", ["hang"]))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not pending.done()  # and yet this test went on
    gate.set()
    assert (await pending).route is Route.FOLLOW_CONTEXT


class SleepyEstimator:
    """Sleeps until it is cancelled, and remembers that it was."""

    fingerprint = Fingerprint(kind="fake")

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = 0

    def estimate(self, question: str) -> Confidence:
        raise AssertionError

    async def aestimate(self, question: str) -> Confidence:
        self.begun.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError


async def test_a_coroutine_past_its_deadline_is_cancelled() -> None:
    async def check(seconds: float) -> None:
        estimator = SleepyEstimator()
        guard = guard_with(estimator=estimator, deadlines={"confidence": seconds})
        decision = await guard.adecide("q", [])
        assert decision.reason is Reason.CONFIDENCE_FAILED
        assert estimator.cancelled == 1

    await awith_enough_time(check)


@pytest.mark.parametrize("batch", [False, True])
async def test_cancelling_a_decision_cancels_its_language_model_call(batch: bool) -> None:
    estimator = SleepyEstimator()
    guard = guard_with(estimator=estimator)
    deciding: Any = guard.adecide_batch(["q"] * 3, [[]] * 3) if batch else guard.adecide("q", [])
    task = asyncio.ensure_future(deciding)
    await estimator.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert estimator.cancelled == (3 if batch else 1)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("batch", [False, True])
async def test_cancelling_a_decision_drops_the_late_failure_of_its_scorer(
    gate: threading.Event, batch: bool
) -> None:
    class Failing(GatedScorer):
        def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
            super().score_pairs(pairs)
            raise RuntimeError("SECRET")

    unhandled: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    guard = gated_guard(gate, scorer=Failing(gate), deadlines={})
    deciding: Any = (
        guard.adecide_batch(["q"], [["hang"]]) if batch else guard.adecide("q", ["hang"])
    )
    task = asyncio.ensure_future(deciding)
    for _ in range(5):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    assert guard.decide("q", ["fine"]).reason is Reason.RELEVANCE_FAILED
    gc.collect()
    await asyncio.sleep(0)
    assert unhandled == []


async def test_a_signal_that_cancels_itself_is_a_failure_not_a_cancellation() -> None:
    class Cancelling(FakeEstimator):
        def estimate(self, question: str) -> Confidence:
            raise asyncio.CancelledError

    for deadlines in ({}, {"confidence": None}):
        guard = guard_with(estimator=Cancelling(), deadlines=deadlines)
        assert guard.decide("q", []).reason is Reason.CONFIDENCE_FAILED
        assert (await guard.adecide("q", [])).reason is Reason.CONFIDENCE_FAILED
        [decision] = guard.decide_batch(["q"], [[]])
        assert decision.reason is Reason.CONFIDENCE_FAILED
        [decision] = await guard.adecide_batch(["q"], [[]])
        assert decision.reason is Reason.CONFIDENCE_FAILED


@pytest.mark.parametrize(
    "error",
    [StopIteration("x"), TimeoutError("x"), asyncio.CancelledError(), SystemExit(3), KeyError(1)],
)
async def test_whatever_ends_a_call_reaches_its_caller_as_an_exception(
    error: BaseException,
) -> None:
    runner = DeadlineRunner()
    passes = isinstance(error, TimeoutError | KeyError)
    expected = type(error) if passes else TaskBrokeOffError

    def task() -> None:
        raise error

    with pytest.raises(expected):
        runner.call(task, 60)
    with pytest.raises(expected):
        await runner.acall(task, 60)
    with pytest.raises(expected):
        await runner.acall(task, None)
    assert runner.call(lambda: 1, 60) == 1


async def test_the_callers_context_reaches_every_signal() -> None:
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace", default="none")
    seen: list[str] = []

    class Traced(FakeEstimator):
        def estimate(self, question: str) -> Confidence:
            seen.append(trace.get())
            return super().estimate(question)

    guard = guard_with(estimator=Traced())
    trace.set("mine")
    guard.decide("q", [])
    guard.decide_batch(["q"] * 3, [[]] * 3)
    await guard.adecide_batch(["q"] * 2, [[]] * 2)
    assert seen == ["mine"] * 6


def test_a_deadline_in_a_million_years_is_no_error() -> None:
    guard = guard_with(policy_with(), deadlines={"relevance": 1e15}, scorer=FakeScorer(default=1.0))
    assert guard.decide("q", ["p"]).route is Route.FOLLOW_CONTEXT


def _decide_in_child(guard: Guard, found: Any) -> None:
    found.put(guard.decide("q", ["p"]).route.value)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_guard_used_before_a_fork_works_after_it() -> None:
    guard = guard_with(scorer=FakeScorer(default=0.9))
    guard.decide("q", ["p"])
    context = multiprocessing.get_context("fork")
    found = context.Queue()
    child = context.Process(target=_decide_in_child, args=(guard, found), daemon=True)
    child.start()
    assert found.get(timeout=60) == "follow_context"
    child.join(30)


class _CountingScorer(GatedScorer):
    """Counts the calls that were begun, not those that were finished."""

    begun = 0

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        self.begun += 1
        return super().score_pairs(pairs)


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_scorer_that_hangs_on_everything_costs_a_batch_two_single_tries_not_one_each(
    gate: threading.Event, asynchronous: bool
) -> None:
    questions, passages = ["q"] * 20, [["hang"]] * 20

    async def check(seconds: float) -> None:
        scorer = _CountingScorer(gate)
        guard = guard_with(scorer=scorer, deadlines={"relevance": seconds})

        if asynchronous:
            decisions = await guard.adecide_batch(questions, passages)
        else:
            decisions = guard.decide_batch(questions, passages)

        assert {decision.reason for decision in decisions} == {Reason.RELEVANCE_FAILED}
        assert 2 <= scorer.begun <= 4

    await awith_enough_time(check)


class _HangingEstimator(FakeEstimator):
    """Hangs on every question."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self._gate = gate

    def estimate(self, question: str) -> Confidence:
        self._gate.wait(60)
        return super().estimate(question)

    async def aestimate(self, question: str) -> Confidence:
        await asyncio.sleep(60)
        return super().estimate(question)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("signal", ["relevance", "confidence"])
async def test_a_signal_that_hangs_costs_a_batch_two_deadlines_whatever_its_size(
    gate: threading.Event, signal: str, asynchronous: bool
) -> None:
    # Half of the questions ask for confidence at once, the others after relevance.
    passages = [["hang"] if signal == "relevance" else ["fine"] * (i % 2) for i in range(200)]
    scorer = GatedScorer(gate) if signal == "relevance" else FakeScorer(default=0.1)
    estimator, deadlines = _HangingEstimator(gate), {signal: SOON}
    guard = guard_with(scorer=scorer, estimator=estimator, deadlines=deadlines, max_concurrency=1)
    started = time.perf_counter()
    if asynchronous:
        decisions = await guard.adecide_batch(["q"] * 200, passages)
    else:
        decisions = guard.decide_batch(["q"] * 200, passages)
    taken = time.perf_counter() - started

    assert {decision.failed_signals for decision in decisions} == {(signal,)}
    assert taken < 100 * SOON  # two deadlines, and what a busy machine takes
