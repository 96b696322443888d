"""The aggregator `joint`: a policy goes by the scorer's own value for all passages together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from knowgate.guard import Decision, Guard, InputError, PolicyError, Reason, Route
from knowgate.guard.contracts import SetScore
from knowgate.guard.errors import SignalValueError
from knowgate.guard.fingerprint import AGGREGATOR_NAMES, aggregator
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FakeSetScorer
from tests.support.guards import guard_with, policy_with, without_timings

HALVES = {"half": 0.3, "whole": 0.9, "broken": float("nan")}
KINDS: list[Any] = [
    ["half", "half"],
    ["half"],
    ["whole", "miss"],
    ["", "half", " ", "half"],
    ["miss"] * 5,
    ["broken", "whole"],
    [],
    None,
    ["half 外"],
]


def joint_guard(scorer: FakeScorer | None = None, **changes: Any) -> Guard:
    policy = policy_with(aggregator="joint", allowed_routes=(Route.FOLLOW_CONTEXT,))
    return guard_with(policy, scorer=scorer or FakeSetScorer(HALVES), **changes)


class ScriptedSets(FakeSetScorer):
    """Returns what it is told, whatever it is asked."""

    def __init__(self, judged: Any) -> None:
        super().__init__()
        self.judged = judged

    def score_set(self, question: str, passages: Sequence[str]) -> SetScore:
        judged: SetScore = self.judged
        return judged

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        return [self.judged for _ in questions]


def test_two_halves_suffice_together_and_neither_alone() -> None:
    guard = joint_guard()
    both = guard.decide("q", ["half", "half"])
    assert (both.route, both.relevance, both.raw_relevance) == (Route.FOLLOW_CONTEXT, 0.6, 0.6)
    assert both.scores == (0.3, 0.3)
    assert guard.decide("q", ["half"]).route is Route.ABSTAIN


def test_scores_of_passages_without_text_stay_none() -> None:
    found = joint_guard().decide("q", ["", "half", " ", "half"])
    assert found.scores == (None, 0.3, None, 0.3)
    assert found.relevance == 0.6


def test_under_other_aggregators_a_set_scorer_is_asked_for_scores_only() -> None:
    guard = guard_with(scorer=FakeSetScorer(HALVES))
    found = guard.decide("q", ["half", "half"])
    assert found.relevance == found.raw_relevance == 0.3


def test_a_scorer_that_judges_no_sets_is_refused_at_once() -> None:
    with pytest.raises(PolicyError, match="FakeScorer has no score_set"):
        joint_guard(FakeScorer())
    with pytest.raises(PolicyError, match="'joint' does not fit the scorer 'lexical'"):
        Guard(
            policy_with(aggregator="joint", scorer=LexicalScorer().fingerprint),
            scorer=LexicalScorer(),
            metrics=False,
        )


def test_a_policy_that_never_follows_needs_no_set_scorer() -> None:
    policy = policy_with(aggregator="joint", relevance_threshold=None)
    assert guard_with(policy).decide("q", ["half"]).reason is Reason.NEITHER_KNOWS


@pytest.mark.parametrize(
    "judged",
    [
        SetScore((0.5,), float("nan")),
        SetScore((0.5,), float("inf")),
        SetScore((float("nan"),), 0.5),
        SetScore((0.5, 0.5), 0.5),
        SetScore((0.5,), True),
        (0.5, 0.5),
        [0.5],
        None,
    ],
)
def test_a_joint_value_that_is_no_finite_number_is_a_failure(judged: Any) -> None:
    guard = joint_guard(ScriptedSets(judged))
    for found in (guard.decide("q", ["p"]), guard.decide_batch(["q", "r"], [["p"], ["p"]])[1]):
        assert (found.route, found.reason) == (Route.ABSTAIN, Reason.RELEVANCE_FAILED)
        assert found.relevance is found.raw_relevance is None
    with pytest.raises(SignalValueError):
        joint_guard(ScriptedSets(judged), on_error="raise").decide("q", ["p"])


def test_too_few_values_for_a_batch_are_asked_for_one_by_one() -> None:
    class Short(FakeSetScorer):
        def score_sets(
            self, questions: Sequence[str], passages: Sequence[Sequence[str]]
        ) -> list[SetScore]:
            return super().score_sets(questions, passages)[: -1 if len(questions) > 1 else None]

    found = joint_guard(Short(HALVES)).decide_batch(["q", "r"], [["half", "half"], ["whole"]])
    assert [d.relevance for d in found] == [0.6, 0.9]


async def all_forms(guard: Guard, cases: list[tuple[str, Any]]) -> dict[str, list[Decision]]:
    questions, passages = [q for q, _ in cases], [p for _, p in cases]
    return {
        "decide": [guard.decide(q, p) for q, p in cases],
        "adecide": list(await asyncio.gather(*(guard.adecide(q, p) for q, p in cases))),
        "decide_batch": guard.decide_batch(questions, passages),
        "adecide_batch": await guard.adecide_batch(questions, passages),
    }


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["q", "外 q"]), st.sampled_from(KINDS)), max_size=80),
    st.sampled_from(["joint", "max", "noisy_or"]),
)
def test_all_four_forms_agree(cases: list[tuple[str, Any]], name: str) -> None:
    scorer = FakeSetScorer(HALVES, unsupported=["外"])
    guard = guard_with(policy_with(aggregator=name), scorer=scorer)
    found = asyncio.run(all_forms(guard, cases))
    expected = [without_timings(d) for d in found["decide"]]
    for form, decisions in found.items():
        assert [without_timings(d) for d in decisions] == expected, form


def test_the_joint_value_does_not_follow_from_passage_scores() -> None:
    assert AGGREGATOR_NAMES == ("max", "noisy_or", "top3_mean", "joint")
    with pytest.raises(InputError, match="scorer's own"):
        aggregator("joint")([0.5])


class AwaitedSets(FakeSetScorer):
    """Can be awaited, and counts how often it was."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(HALVES, **settings)
        self.awaited = 0

    async def ascore(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        self.awaited += 1
        return super().score(question, passages)

    async def ascore_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        self.awaited += 1
        return super().score_pairs(pairs)

    async def ascore_set(self, question: str, passages: Sequence[str]) -> SetScore:
        self.awaited += 1
        return super().score_sets([question], [passages])[0]

    async def ascore_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        self.awaited += 1
        return super().score_sets(questions, passages)


@pytest.mark.parametrize("aggregator", ["joint", "max"])
def test_a_scorer_that_can_be_awaited_is_awaited_with_the_same_results(aggregator: str) -> None:
    questions = ["q", "外 q", *["q"] * (len(KINDS) - 2)]

    def guard(scorer: FakeScorer) -> Guard:
        return guard_with(policy_with(aggregator=aggregator), scorer=scorer)

    scorer = AwaitedSets(unsupported=["外"])
    found = asyncio.run(guard(scorer).adecide_batch(questions, KINDS))
    singly = [
        asyncio.run(guard(scorer).adecide(*one)) for one in zip(questions, KINDS, strict=True)
    ]
    assert scorer.awaited > 1
    expected = guard(FakeSetScorer(HALVES, unsupported=["外"])).decide_batch(questions, KINDS)
    for decisions in (found, singly):
        assert list(map(without_timings, decisions)) == list(map(without_timings, expected))
    assert expected[1].reason is Reason.UNSUPPORTED_LANGUAGE
