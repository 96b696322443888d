"""The guard measures no more than the decision needs."""

from __future__ import annotations

from typing import Any

import pytest

from knowgate.guard import Decision, Guard, Reason, Route
from knowgate.guard.signals.confidence import SampledConsistency
from knowgate.guard.signals.conflict import AnswerConflict
from knowgate.guard.testing import FakeScorer, ScriptedLanguageModel
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
