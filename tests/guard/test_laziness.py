"""The guard measures no more than the decision needs, one question or many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from knowgate.guard import (
    Confidence,
    Decision,
    Generation,
    Guard,
    LanguageModelError,
    Reason,
    Route,
)
from knowgate.guard.signals.confidence import SampledConsistency
from knowgate.guard.signals.conflict import AnswerConflict
from knowgate.guard.testing import FakeScorer, ScriptedLanguageModel
from tests.support.deadlines import awith_enough_time
from tests.support.guards import guard_with, policy_with


def guard_over(
    language_model: ScriptedLanguageModel, relevance: float, **changes: Any
) -> tuple[Guard, FakeScorer]:
    scorer = FakeScorer(default=relevance)
    guard = guard_with(
        policy_with(**changes),
        scorer=scorer,
        estimator=SampledConsistency(language_model),
        conflict_detector=AnswerConflict(language_model),
    )
    return guard, scorer


async def in_every_way(guard: Guard, passages: list[str]) -> list[Decision]:
    return [
        guard.decide("who?", passages),
        await guard.adecide("who?", passages),
        *guard.decide_batch(["who?"], [passages]),
        *await guard.adecide_batch(["who?"], [passages]),
    ]


async def test_a_sufficient_context_never_asks_the_language_model() -> None:
    lm = ScriptedLanguageModel(default="Ada")
    guard, scorer = guard_over(lm, 0.5)
    decisions = await in_every_way(guard, ["passage"])
    assert {d.route for d in decisions} == {Route.FOLLOW_CONTEXT}
    assert (lm.calls, scorer.calls) == (0, 4)
    assert all(d.confidence is None and d.scenario is None for d in decisions)


async def test_where_memory_is_not_allowed_the_language_model_is_never_asked() -> None:
    lm = ScriptedLanguageModel(default="Ada")
    guard, _ = guard_over(lm, 0.1, allowed_routes=(Route.FOLLOW_CONTEXT,))
    decisions = await in_every_way(guard, ["passage"]) + await in_every_way(guard, [])
    assert {d.reason for d in decisions} == {Reason.INSUFFICIENT_CONTEXT, Reason.NOTHING_RETRIEVED}
    assert lm.calls == 0


async def test_without_passages_the_scorer_is_not_asked() -> None:
    lm = ScriptedLanguageModel(default="Ada")
    guard, scorer = guard_over(lm, 1.0)
    decisions = await in_every_way(guard, ["", "  "])
    assert {d.route for d in decisions} == {Route.ANSWER}
    assert scorer.calls == 0
    assert all(d.relevance == 0.0 and d.scores == (None, None) for d in decisions)


async def test_where_no_context_may_be_followed_the_scorer_is_not_asked() -> None:
    lm = ScriptedLanguageModel(default="Ada")
    guard, scorer = guard_over(lm, 1.0, allowed_routes=(Route.ANSWER,))
    decisions = await in_every_way(guard, ["passage"])
    assert {d.route for d in decisions} == {Route.ANSWER}
    assert scorer.calls == 0


async def test_a_model_that_does_not_know_is_not_asked_for_a_conflict() -> None:
    lm = ScriptedLanguageModel(default="I don't know")
    guard, _ = guard_over(lm, 0.9, check_conflict=True)
    decisions = await in_every_way(guard, ["passage"])
    assert lm.calls == 4  # one greedy answer each, neither samples nor a context answer
    assert all(d.conflict is None for d in decisions)


@pytest.mark.parametrize(
    ("from_context", "on_conflict", "reason"),
    [
        ("Ada", "abstain", Reason.SUFFICIENT_CONTEXT),
        ("Grace", "abstain", Reason.CONFLICT),
        ("Grace", "follow_context", Reason.CONFLICT_FOLLOWS_CONTEXT),
        ("not stated", "abstain", Reason.SUFFICIENT_CONTEXT),
    ],
)
async def test_a_conflict_is_looked_for_only_where_the_model_is_confident(
    from_context: str, on_conflict: str, reason: Reason
) -> None:
    lm = ScriptedLanguageModel({"Context:": from_context}, default="Ada")
    guard, _ = guard_over(lm, 0.9, check_conflict=True, on_conflict=on_conflict)
    decisions = await in_every_way(guard, ["passage"])
    assert {d.reason for d in decisions} == {reason}
    assert lm.generated == 4 * (1 + 7 + 1)
    assert all(d.closed_book_answer == "Ada" for d in decisions)


MANY = [f"{kind} {number}" for number in range(14) for kind in ("sure", "torn", "lost", "broken")]


class Partly(ScriptedLanguageModel):
    """Cannot answer the questions that are broken; counts its calls by prompts."""

    def __init__(self) -> None:
        super().__init__({"sure": "Ada", "torn": ["Ada", "Grace"], "lost": ["A", "B", "C", "D"]})
        self.largest = 0

    def generate(self, prompts: Sequence[str], **settings: Any) -> list[list[Generation]]:
        self.largest = max(self.largest, len(prompts))
        if any("broken" in prompt for prompt in prompts):
            raise LanguageModelError("no answer to this one")
        return super().generate(prompts, **settings)


async def test_batches_ask_an_estimator_together_and_decide_as_one_by_one() -> None:
    def guard() -> tuple[Partly, Guard]:
        model = Partly()
        estimator = SampledConsistency(model, stopping="none")
        return model, guard_with(policy_with(confidence_threshold=0.7), estimator=estimator)

    passages: list[list[str]] = [[]] * len(MANY)
    model, one = guard()
    singly = [one.decide(question, []) for question in MANY]
    together, batched = guard()
    atogether, abatched = guard()

    for found in (
        batched.decide_batch(MANY, passages),
        await abatched.adecide_batch(MANY, passages),
    ):
        assert [d.route for d in found] == [d.route for d in singly]
        assert [d.confidence for d in found] == [d.confidence for d in singly]
        assert [d.reason for d in found] == [d.reason for d in singly]
        assert [d.closed_book_answer for d in found] == [d.closed_book_answer for d in singly]
    assert (model.largest, together.largest, atogether.largest) == (1, 32, 32)


class Hanging(SampledConsistency):
    """Hangs when it is asked about several questions, and about one of them."""

    def __init__(self) -> None:
        super().__init__(ScriptedLanguageModel(default="Ada"))
        self.released = threading.Event()

    def estimate(self, question: str) -> Confidence:
        if question == "hangs":
            self.released.wait(60)
        return Confidence(1.0, "Ada")

    async def aestimate(self, question: str) -> Confidence:
        if question == "hangs":
            await asyncio.sleep(60)
        return Confidence(1.0, "Ada")

    def estimate_many(self, questions: Sequence[str], **settings: Any) -> Any:
        self.released.wait(60)

    async def aestimate_many(self, questions: Sequence[str], **settings: Any) -> Any:
        await asyncio.sleep(10)


async def test_a_joint_estimate_that_hangs_leaves_each_question_its_own_deadline() -> None:
    questions = ["a", "hangs", "b"]

    async def check(seconds: float) -> None:
        estimator = Hanging()
        guard = guard_with(
            policy_with(confidence_threshold=0.7),
            estimator=estimator,
            deadlines={"confidence": seconds},
        )
        try:
            for found in (
                guard.decide_batch(questions, [[]] * 3),
                await guard.adecide_batch(questions, [[]] * 3),
            ):
                assert [d.route.value for d in found] == ["answer", "abstain", "answer"]
                assert found[1].reason == "confidence_failed"
        finally:
            estimator.released.set()

    await awith_enough_time(check)
