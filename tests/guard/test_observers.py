"""Observers see every decision and have no say in it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from knowgate.guard import Decision, Guard, Reason, Route
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FailingScorer
from tests.support.guards import guard_with, without_timings

QUESTIONS = ["one", "two", "three", "four"]
PASSAGES = [["good"], ["bad"], [], ["broken"]]
SECRET = "Xylophone-4711"


def watched(*observers: Callable[[Decision], object], **changes: Any) -> Guard:
    scorer = FakeScorer({"good": 0.9, "broken": float("nan")}, default=0.1)
    return guard_with(scorer=scorer, observers=observers, **changes)


async def test_all_four_forms_tell_the_decisions_that_they_return_in_order() -> None:
    seen: list[Decision] = []
    guard = watched(seen.append)

    returned = [guard.decide(*pair) for pair in zip(QUESTIONS, PASSAGES, strict=True)]
    returned += [await guard.adecide(*pair) for pair in zip(QUESTIONS, PASSAGES, strict=True)]
    returned += guard.decide_batch(QUESTIONS, PASSAGES)
    returned += await guard.adecide_batch(QUESTIONS, PASSAGES)

    assert [id(one) for one in seen] == [id(one) for one in returned]
    once = [without_timings(one) for one in seen[:4]]
    assert [without_timings(one) for one in seen] == 4 * once
    assert all("total" in one.timings for one in seen)


def test_a_decision_is_counted_before_it_is_told() -> None:
    rates: list[float | None] = []
    guard = watched(
        lambda _: rates.append(guard.metrics.abstention_rate() if guard.metrics else None),
        metrics=True,
        registry=CollectorRegistry(),
    )
    guard.decide("q", ["good"])
    guard.decide("q", ["bad"])
    assert rates == [0.0, 0.5]


def test_observers_are_called_in_order_on_the_thread_that_decides() -> None:
    calls: list[tuple[str, int]] = []
    guard = watched(
        lambda _: calls.append(("first", threading.get_ident())),
        lambda _: calls.append(("second", threading.get_ident())),
    )
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(lambda: (guard.decide("q", ["good"]), threading.get_ident())[1])
    assert calls == [("first", there.result()), ("second", there.result())]


@pytest.mark.parametrize("error", [RuntimeError, KeyError, asyncio.CancelledError])
async def test_one_that_raises_is_logged_once_without_text_and_changes_nothing(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    after: list[Decision] = []

    def breaks(_: Decision) -> None:
        raise error(SECRET)

    guard, calm = watched(breaks, after.append), watched()

    with caplog.at_level(logging.DEBUG):
        found = [guard.decide(SECRET, ["good"]), await guard.adecide(SECRET, ["good"])]
        found += guard.decide_batch([SECRET], [["good"]])
        found += await guard.adecide_batch([SECRET], [["good"]])

    expected = without_timings(calm.decide(SECRET, ["good"]))
    assert [without_timings(one) for one in found] == 4 * [expected]
    assert len(after) == 4
    assert caplog.text.count(error.__name__) == 1
    assert "breaks" in caplog.text
    assert SECRET not in caplog.text


def test_a_decision_taken_outside_is_counted_and_told_as_the_guards_own() -> None:
    seen: list[Decision] = []
    guard = watched(seen.append, metrics=True, registry=CollectorRegistry())
    failed = Decision(route=Route.ABSTAIN, reason=Reason.RETRIEVAL_FAILED)

    guard.count(failed)

    assert seen == [failed]
    assert guard.metrics is not None
    assert guard.metrics.abstention_rate() == 1.0
    watched().count(failed)  # with neither metrics nor observers


def test_what_is_no_error_goes_through() -> None:
    def stops(_: Decision) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watched(stops).decide("q", ["good"])


def test_failed_signals_are_told_and_raised_errors_are_not_decisions() -> None:
    seen: list[Decision] = []
    guard_with(scorer=FailingScorer(RuntimeError("down")), observers=[seen.append]).decide(
        "q", ["good"]
    )
    assert [one.failed_signals for one in seen] == [("relevance",)]

    guard = guard_with(
        scorer=FailingScorer(RuntimeError("down")), observers=[seen.append], on_error="raise"
    )
    with pytest.raises(Exception, match="relevance"):
        guard.decide("q", ["good"])
    assert len(seen) == 1
