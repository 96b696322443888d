"""decide, adecide, decide_batch and adecide_batch give equal decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from knowgate.guard import Decision, Guard, GuardOptions, Policy, Route
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.signals.confidence import SampledConsistency
from knowgate.guard.signals.conflict import AnswerConflict
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.guard.testing import FakeScorer
from knowgate.guard.testing import ScriptedLanguageModel as Scripted
from tests.support.fakes import FakeConflictDetector, FakeEstimator
from tests.support.guards import guard_with, policy_with, without_timings

QUESTIONS: list[Any] = [f"question {i}" for i in range(60)]
SCORES = {"good": 0.9, "border": 0.5, "bad": 0.1, "broken": float("nan")}


def passages_for(index: int) -> Any:
    kinds: list[Any] = [
        ["good"],
        ["bad", "good", "bad"],
        ["border"],
        ["bad"],
        [],
        None,
        ["", " ", "good"],
        [{"text": "good"}, {"page_content": "bad"}, {"none": 1}, 7, None],
        ["broken", "good"],
        "good as one text",
        [b"good", b"\xff\xfe"],
        ["bad\x00", "\ud800 bad"],
    ]
    return kinds[index % len(kinds)]


def mixed_questions() -> list[tuple[Any, Any]]:
    cases = [(question, passages_for(i)) for i, question in enumerate(QUESTIONS)]
    cases += [("", ["good"]), (None, ["good"]), (7, ["good"]), ("q", 7), (b"bytes", ["good"])]
    return cases


def everything_asked() -> Guard:
    return guard_with(
        policy_with(check_conflict=True, on_conflict="abstain"),
        scorer=FakeScorer(SCORES),
        estimator=FakeEstimator({q: i % 11 / 10 for i, q in enumerate(QUESTIONS)}),
        conflict_detector=FakeConflictDetector(QUESTIONS[::3]),
    )


def follows_on_error() -> Guard:
    return guard_with(
        scorer=FakeScorer(SCORES),
        estimator=FakeEstimator(error=RuntimeError("down")),
        on_error="follow_context",
        mode="shadow",
    )


def scripted_model() -> Guard:
    lm = Scripted(
        {"question 1": ["Ada", "Grace"], "question 2": "Ada", "Context": "Grace"}, default="none"
    )
    return guard_with(
        policy_with(check_conflict=True),
        scorer=FakeScorer(SCORES),
        estimator=SampledConsistency(lm),
        conflict_detector=AnswerConflict(lm),
    )


def no_threshold() -> Guard:
    return guard_with(policy_with(relevance_threshold=None, confidence_threshold=None))


async def each(call: Callable[[Any, Any], Awaitable[Decision]], cases: Any) -> list[Decision]:
    return list(await asyncio.gather(*(call(q, p) for q, p in cases)))


def up_to_the_last_bits(decision: Decision) -> dict[str, Any]:
    """A decision that equals others whose numbers differ by at most 1e-5."""

    def close(number: float | None) -> Any:
        return number if number is None else pytest.approx(number, rel=0, abs=1e-5)

    found = without_timings(decision)
    numbers = {name: close(found[name]) for name in ("relevance", "raw_relevance")}
    scores = found["scores"]
    return {**found, **numbers, "scores": scores and tuple(map(close, scores))}


async def assert_all_agree(
    guard: Guard,
    cases: list[tuple[Any, Any]],
    expecting: Callable[[Decision], dict[str, Any]] = without_timings,
) -> list[Decision]:
    questions, collections = [q for q, _ in cases], [p for _, p in cases]
    single = [guard.decide(q, p) for q, p in cases]
    others = {
        "adecide": await each(guard.adecide, cases),
        "decide_batch": guard.decide_batch(questions, collections),
        "adecide_batch": await guard.adecide_batch(questions, collections),
    }
    expected = [expecting(d) for d in single]
    for name, decisions in others.items():
        assert [without_timings(d) for d in decisions] == expected, name
    return single


@pytest.mark.slow
@pytest.mark.parametrize("make", [everything_asked, follows_on_error, scripted_model, no_threshold])
async def test_all_four_forms_agree_on_mixed_questions(make: Callable[[], Guard]) -> None:
    decisions = await assert_all_agree(make(), mixed_questions())
    assert len(decisions) >= 50


async def test_the_mixed_questions_take_every_route_and_many_reasons() -> None:
    guard = everything_asked()
    decisions = [guard.decide(q, p) for q, p in mixed_questions()]
    assert {d.route for d in decisions} == set(Route)
    assert len({d.reason for d in decisions}) >= 7


TOPICS = ["library", "swimming pool", "passport", "refuse", "parking", "dog tax", "marriage"]


def real_questions() -> list[tuple[Any, Any]]:
    cases: list[tuple[Any, Any]] = []
    for i in range(50):
        topic, other = TOPICS[i % 7], TOPICS[(i // 7) % 7]
        passages = [
            f"The {topic} office opens at {i % 5 + 7}.",
            f"All about the {other}. " * (i % 4),
        ]
        cases.append((f"When does the {topic} open on day {i % 3}?", passages[: i % 3]))
    return cases


@pytest.mark.slow
async def test_batches_of_the_bi_encoder_are_equal_up_to_the_last_bits(
    bi_encoder: BiEncoderScorer,
) -> None:
    fresh = [("cold cache", ["never seen before", "nor this one, which is a good deal longer"])]
    policy = Policy(scorer=bi_encoder.fingerprint, relevance_threshold=0.5)
    options = GuardOptions(deadlines={"relevance": None})
    guard = Guard(policy, scorer=bi_encoder, options=options, metrics=False)
    await assert_all_agree(guard, real_questions() + fresh, up_to_the_last_bits)


async def test_batches_of_the_lexical_scorer_are_equal_to_the_last_bit(
    lexical: LexicalScorer,
) -> None:
    policy = Policy(scorer=lexical.fingerprint, relevance_threshold=0.3)
    guard = Guard(policy, scorer=lexical, metrics=False)
    await assert_all_agree(guard, real_questions())


async def test_a_batch_of_nothing_is_nothing() -> None:
    guard = everything_asked()
    assert guard.decide_batch([], []) == []
    assert await guard.adecide_batch([], []) == []


def test_more_questions_than_one_scoring_call_takes_stay_in_order() -> None:
    scorer = FakeScorer({f"p{i} ": i / 200 for i in range(150)})
    guard = guard_with(policy_with(allowed_routes=(Route.FOLLOW_CONTEXT,)), scorer=scorer)
    decisions = guard.decide_batch(["q"] * 150, [[f"p{i} "] for i in range(150)])
    assert [d.relevance for d in decisions] == [i / 200 for i in range(150)]
    assert scorer.calls == 6
