"""What a failed signal leads to, signal by signal and in every form."""

from __future__ import annotations

from typing import Any

import pytest

from knowgate.guard import (
    Guard,
    InputError,
    KnowgateError,
    LanguageModelError,
    QuestionError,
    Reason,
    Route,
    SignalError,
)
from knowgate.guard.decision import SignalName
from knowgate.guard.errors import SignalValueError
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FailingScorer, FakeConflictDetector, FakeEstimator
from tests.support.guards import FORMS, decided, guard_with, policy_with, without_timings

# The look at the premise is an addition: what its failure leads to stands in test_false_premise.
ROUTED_BY = list(SignalName)


class FailingDetector(FakeConflictDetector):
    def detect(self, question: str, closed_book_answer: str, passages: Any) -> bool:
        raise RuntimeError("down")


def parts_failing_at(signal: SignalName) -> dict[str, Any]:
    error = RuntimeError("down")
    return {
        "scorer": FailingScorer(error) if signal == "relevance" else FakeScorer(default=0.9),
        "estimator": FakeEstimator(default=0.9, error=error if signal == "confidence" else None),
        "conflict_detector": FailingDetector() if signal == "conflict" else FakeConflictDetector(),
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("signal", ROUTED_BY)
@pytest.mark.parametrize("by_name", [False, True])
async def test_a_failed_signal_abstains_follows_or_raises_as_it_was_told(
    form: str, signal: SignalName, by_name: bool
) -> None:
    def guard(action: str) -> Guard:
        on_error: Any = {signal.value: action} if by_name else action
        policy = policy_with(check_conflict=True)
        return guard_with(policy, on_error=on_error, **parts_failing_at(signal))

    abstained = await decided(form, guard("abstain"), "q", ["p", ""])
    assert abstained.route is Route.ABSTAIN
    assert str(abstained.reason) == f"{signal.value}_failed"
    assert abstained.kept == ()
    followed = await decided(form, guard("follow_context"), "q", ["p", ""])
    assert followed.route is Route.FOLLOW_CONTEXT
    assert followed.reason is Reason.SIGNAL_FAILED_FOLLOWS_CONTEXT
    assert followed.kept == (0,)
    assert abstained.failed_signals == followed.failed_signals == (signal.value,)
    with pytest.raises(SignalError) as raised:
        await decided(form, guard("raise"), "q", ["p", ""])
    assert raised.value.signal == signal
    assert "down" not in str(raised.value)


@pytest.mark.parametrize("form", FORMS)
async def test_nothing_retrieved_is_never_followed_after_an_error(form: str) -> None:
    guard = guard_with(on_error="follow_context", **parts_failing_at(SignalName.CONFIDENCE))
    decision = await decided(form, guard, "q", [])
    assert (decision.route, decision.reason) == (Route.ABSTAIN, Reason.CONFIDENCE_FAILED)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "changes", [{"allowed_routes": (Route.ANSWER,)}, {"relevance_threshold": None}]
)
async def test_an_error_never_opens_a_route_that_the_policy_closed(
    form: str, changes: dict[str, Any]
) -> None:
    guard = guard_with(
        policy_with(**changes), on_error="follow_context", **parts_failing_at(SignalName.CONFIDENCE)
    )
    decision = await decided(form, guard, "q", ["p"])
    assert (decision.route, decision.reason) == (Route.ABSTAIN, Reason.CONFIDENCE_FAILED)


@pytest.mark.parametrize("form", FORMS)
async def test_unreadable_input_is_raised_only_when_told_so(form: str) -> None:
    with pytest.raises(QuestionError):
        await decided(form, guard_with(on_error={"input": "raise"}), 7, ["p"])
    for on_error in ("abstain", "follow_context"):
        decision = await decided(form, guard_with(on_error=on_error), 7, ["p"])
        assert decision.reason is Reason.INVALID_INPUT


@pytest.mark.parametrize("form", FORMS)
async def test_an_error_of_our_own_is_raised_as_it_is(form: str) -> None:
    error = LanguageModelError("no answer")
    guard = guard_with(on_error="raise", estimator=FakeEstimator(error=error))
    with pytest.raises(KnowgateError) as raised:
        await decided(form, guard, "q", [])
    assert raised.value is error


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("form", FORMS)
async def test_a_score_that_is_no_finite_number_fails_the_signal(form: str, score: float) -> None:
    guard = guard_with(on_error="raise", scorer=FakeScorer({"odd": score}, default=0.9))
    with pytest.raises(SignalValueError, match="NaN or infinity"):
        await decided(form, guard, "q", ["fine", "odd"])


async def test_one_bad_question_does_not_spoil_the_others() -> None:
    scorer = FakeScorer({"good": 0.9, "nan": float("nan")}, default=0.1)
    guard = guard_with(scorer=scorer, estimator=FakeEstimator({"known": 0.9}))
    questions: list[Any] = ["a", "b", None, "known", "unknown"]
    passages: list[Any] = [["good"], ["good", "nan"], ["good"], ["bad"], ["bad"]]
    for decisions in (
        guard.decide_batch(questions, passages),
        await guard.adecide_batch(questions, passages),
    ):
        assert [d.reason for d in decisions] == [
            Reason.SUFFICIENT_CONTEXT,
            Reason.RELEVANCE_FAILED,
            Reason.INVALID_INPUT,
            Reason.CONFIDENT_MEMORY,
            Reason.NEITHER_KNOWS,
        ]


async def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="2 questions but 1"):
        guard_with().decide_batch(["a", "b"], [["p"]])
    with pytest.raises(InputError, match="2 questions but 1"):
        await guard_with().adecide_batch(["a", "b"], [["p"]])


def test_one_text_in_the_place_of_many_questions_is_refused() -> None:
    with pytest.raises(InputError, match="one text"):
        guard_with().decide_batch("ab", [["p"], ["p"]])
    with pytest.raises(InputError, match="passages are one text"):
        guard_with().decide_batch(["a", "b"], "pp")


@pytest.mark.parametrize("value", [None, 5, {"a": 1, "b": 2}])
async def test_what_is_no_list_of_questions_or_passages_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="the questions are a"):
        guard_with().decide_batch(value, [["p"], ["p"]])
    with pytest.raises(InputError, match="the passages are a"):
        await guard_with().adecide_batch(["a", "b"], value)


def test_a_batch_may_come_from_generators() -> None:
    listed = guard_with().decide_batch(["a", "b"], [["p"], None])
    generated = guard_with().decide_batch(
        (question for question in "ab"),  # type: ignore[arg-type]
        iter([["p"], None]),  # type: ignore[arg-type]
    )
    assert list(map(without_timings, generated)) == list(map(without_timings, listed))


async def test_shadow_mode_decides_alike_and_does_not_act() -> None:
    enforcing, shadowing = guard_with(mode="enforce"), guard_with(mode="shadow")
    first, second = enforcing.decide("q", ["p"]), shadowing.decide("q", ["p"])
    assert first.acts
    assert not second.acts
    expected = without_timings(first) | {"mode": "shadow"}
    assert without_timings(second) == expected
