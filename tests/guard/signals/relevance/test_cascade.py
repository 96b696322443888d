"""The cascade: a costly scorer is asked only in the band, and its failures stop nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from knowgate.guard import (
    Fingerprint,
    FingerprintMismatchError,
    Guard,
    GuardMetrics,
    InputError,
    LanguageModelError,
    Policy,
    PolicyError,
    Route,
)
from knowgate.guard.contracts import SetRelevanceScorer
from knowgate.guard.fingerprint import CascadeRule, Probe
from knowgate.guard.policy import IdentityCalibrator
from knowgate.guard.signals.relevance import CascadeScorer, LexicalScorer, SufficiencyJudge
from knowgate.guard.testing import FakeScorer, ScriptedLanguageModel
from tests.support.guards import without_timings

CHEAP = {"low": 0.2, "inside": 0.6, "also": 0.7, "high": 0.9}
SETS = [["low"], ["inside"], ["high"], ["also", "low"], ["inside yes"], ["also yes"]]
QUESTIONS = [f"question {number}?" for number in range(len(SETS))]


class Counting(FakeScorer):
    """Says yes to passages with `yes`; fails on those with one of the given words."""

    def __init__(self, fails: str = "", error: Exception | None = None) -> None:
        super().__init__({"yes": 1.0})
        self.fails, self.error = fails, error
        self.asked: list[str] = []

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        self.asked += [passage for _, passage in pairs]
        if self.fails and any(self.fails in passage for _, passage in pairs):
            if self.error is not None:
                raise self.error
            return np.asarray([float("nan")] * len(pairs))
        return super().score_pairs(pairs)


def cascade(costly: Any = None, **options: Any) -> CascadeScorer:
    given = {"threshold": 0.5, "reach": 0.3, **options}
    return CascadeScorer(FakeScorer(CHEAP), costly or Counting(), **given)


def decided(guard: Guard) -> list[tuple[str, str | None]]:
    found = guard.decide_batch(QUESTIONS, SETS)
    return [(one.route.value, one.relevance_stage) for one in found]


def guard_of(scorer: CascadeScorer, **options: Any) -> Guard:
    policy = Policy.for_scorer(scorer, threshold=0.5, calibrator=IdentityCalibrator())
    return Guard(policy, scorer=scorer, **{"metrics": False, **options})


@given(
    cheap=st.floats(-5, 5),
    verdict=st.floats(0, 1),
    reach=st.floats(0, 3),
    strict=st.floats(-5, 5) | st.just(float("inf")),
    lower=st.floats(-5, 5),
    higher=st.floats(-5, 5),
)
@settings(max_examples=100, deadline=None)
def test_what_passes_goes_on_passing_as_the_band_moves_down(
    cheap: float, verdict: float, reach: float, strict: float, lower: float, higher: float
) -> None:
    lower, higher = sorted((lower, higher))

    def passes(threshold: float) -> bool:
        rule = CascadeRule(threshold=threshold, reach=reach)
        return rule.value(cheap, verdict, strict) >= threshold

    assert passes(lower) or not passes(higher)
    strictest = CascadeRule.strictest(cheap, verdict, reach, strict)
    assert passes(strictest - 1e-9)
    assert not passes(strictest + 1e-9)


@given(cheap=st.floats(-5, 5), fallback=st.floats(-5, 5))
def test_a_question_whose_verdict_failed_passes_by_the_fallback(
    cheap: float, fallback: float
) -> None:
    rule = CascadeRule(threshold=0.0, reach=2.0, fallback=fallback)
    # Above the band no failure lets a doubtful match pass.
    assert rule.value(2.0 + abs(cheap), None, strict=-1.0) < 0.0
    if rule.asks(cheap):
        assert (rule.value(cheap, None) >= 0.0) is (cheap >= fallback)
        assert CascadeRule(threshold=0.0, reach=2.0).value(cheap, None) < 0.0


def test_only_the_band_is_asked_and_only_a_no_changes_the_route() -> None:
    costly = Counting()
    assert decided(guard_of(cascade(costly))) == [
        ("abstain", "cheap"),
        ("abstain", "costly"),
        ("follow_context", "cheap"),
        ("abstain", "costly"),
        ("follow_context", "costly"),
        ("follow_context", "costly"),
    ]
    assert costly.asked == ["inside", "also", "low", "inside yes", "also yes"]


def test_sync_async_and_batch_agree() -> None:
    guard = guard_of(cascade())
    singly = [guard.decide(q, p) for q, p in zip(QUESTIONS, SETS, strict=True)]

    async def awaited() -> list[Any]:
        one_by_one = [await guard.adecide(q, p) for q, p in zip(QUESTIONS, SETS, strict=True)]
        return [one_by_one, await guard.adecide_batch(QUESTIONS, SETS)]

    for found in (guard.decide_batch(QUESTIONS, SETS), *asyncio.run(awaited())):
        assert list(map(without_timings, found)) == list(map(without_timings, singly))


def test_a_judge_is_awaited_and_agrees() -> None:
    model = ScriptedLanguageModel({"yes": "yes"}, default="no")
    scorer = cascade(SufficiencyJudge(model))
    assert asyncio.run(scorer.ascore_sets(QUESTIONS, SETS)) == scorer.score_sets(QUESTIONS, SETS)
    assert isinstance(scorer, SetRelevanceScorer)


@pytest.mark.parametrize("error", [None, LanguageModelError("down"), RuntimeError("x")])
@pytest.mark.parametrize("fallback", [None, 0.65])
def test_one_failure_costs_one_verdict(error: Exception | None, fallback: float | None) -> None:
    scorer = cascade(Counting("also", error), fallback=fallback)
    by_fallback = "abstain" if fallback is None else "follow_context"
    wanted = [
        ("abstain", "cheap"),
        ("abstain", "costly"),
        ("follow_context", "cheap"),
        (by_fallback, "fallback"),
        ("follow_context", "costly"),
        (by_fallback, "fallback"),
    ]
    assert decided(guard_of(scorer)) == wanted
    found = asyncio.run(scorer.ascore_sets(QUESTIONS, SETS))
    assert [one.stage for one in found] == [stage for _, stage in wanted]


def test_a_fallback_below_the_value_lets_nothing_pass() -> None:
    scorer = cascade(Counting("inside", RuntimeError()), fallback=0.65)
    assert decided(guard_of(scorer))[1] == ("abstain", "fallback")


class Cancelling(FakeScorer):
    """Is cancelled from within, or waits to be cancelled from outside."""

    def __init__(self, *, waits: bool) -> None:
        super().__init__()
        self.waits, self.waiting = waits, asyncio.Event()

    async def ascore_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        if not self.waits:
            raise asyncio.CancelledError
        self.waiting.set()
        await asyncio.Event().wait()
        raise AssertionError


def test_a_scorer_that_is_cancelled_fails_and_a_caller_who_cancels_is_obeyed() -> None:
    async def cancelled() -> bool:
        costly = Cancelling(waits=True)
        asked = asyncio.create_task(cascade(costly).ascore_set("q?", ["inside"]))
        await asyncio.wait_for(costly.waiting.wait(), 20)
        asked.cancel()
        await asyncio.wait({asked})
        return asked.cancelled()

    found = asyncio.run(cascade(Cancelling(waits=False)).ascore_set("q?", ["inside"]))
    assert found.stage == "fallback"
    assert asyncio.run(cancelled())


class Hanging(FakeScorer):
    """Waits until it is let go."""

    def __init__(self) -> None:
        super().__init__(default=1.0)
        self.go, self.calls = threading.Event(), 0

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        self.calls += 1
        self.go.wait(20)
        return super().score_pairs(pairs)


def test_a_hanging_judge_is_waited_for_twice_and_no_more() -> None:
    costly = Hanging()
    scorer = cascade(costly, seconds=0.1, fallback=0.0)
    try:
        found = guard_of(scorer).decide_batch(QUESTIONS, SETS)
        alone = asyncio.run(scorer.ascore_set("q?", ["inside"]))
    finally:
        costly.go.set()
    stages = [one.relevance_stage for one in found]
    assert stages == ["cheap", "fallback", "cheap", "fallback", "fallback", "fallback"]
    assert [one.route for one in found].count(Route.ABSTAIN) == 1
    assert (alone.stage, costly.calls) == ("fallback", 3)


def test_metrics_count_the_stages() -> None:
    registry = CollectorRegistry()
    guard = guard_of(cascade(Counting("also", RuntimeError())), metrics=GuardMetrics.on(registry))
    decided(guard)

    def counted(stage: str) -> float | None:
        labels = {"guard": "default", "stage": stage}
        return registry.get_sample_value("knowgate_relevance_stages_total", labels)

    assert [counted(one) for one in ("cheap", "costly", "fallback")] == [2.0, 2.0, 2.0]


def test_a_policy_is_bound_to_both_stages_and_the_band(tmp_path: Any) -> None:
    cheap, costly = LexicalScorer(), Counting()
    scorer = CascadeScorer(cheap, costly, threshold=0.3, reach=0.2, fallback=0.4)
    policy = Policy.for_scorer(scorer, threshold=0.3)
    path = tmp_path / "policy.json"
    policy.save(path)
    # The costly scorer alone suffices; the cheap one is loaded by its name.
    guard = Guard.load(path, scorer=costly, metrics=False)
    assert guard.scorer is not None
    assert guard.scorer.fingerprint == scorer.fingerprint
    assert guard.decide("When does it open?", ["It opens at nine, yes."]).relevance_stage
    others = [
        CascadeScorer(cheap, costly, threshold=0.3, reach=0.25, fallback=0.4),
        CascadeScorer(cheap, SufficiencyJudge(ScriptedLanguageModel()), threshold=0.3, reach=0.2),
        CascadeScorer(FakeScorer(), costly, threshold=0.3, reach=0.2, fallback=0.4),
    ]
    for other in others:
        with pytest.raises(FingerprintMismatchError):
            Guard.load(path, scorer=other, metrics=False)
    with pytest.raises(InputError, match="costly scorer has to be given"):
        Guard.load(path, metrics=False)
    with pytest.raises(InputError, match="of no cascade"):
        CascadeScorer.of(cheap.fingerprint, cheap, costly)


def test_an_own_calibrator_is_part_of_the_policy() -> None:
    from knowgate.guard.routing import PlattCalibrator

    own = PlattCalibrator(a=2.0, b=-1.0)
    scorer = cascade(calibrator=own)
    again = CascadeScorer.of(scorer.fingerprint, *scorer.scorers)
    assert again.fingerprint == scorer.fingerprint != cascade().fingerprint


def test_another_aggregator_would_never_ask() -> None:
    scorer = cascade()
    with pytest.raises(PolicyError, match="judges passages together"):
        Policy.for_scorer(scorer, threshold=0.5, calibrator=IdentityCalibrator(), aggregator="max")


def test_the_probe_of_a_stage_is_compared() -> None:
    scorer = cascade()
    cheap, costly = scorer.fingerprint.stages
    probed = cheap.model_copy(update={"probe": Probe(scores=(0.1, 0.2))})
    other = cheap.model_copy(update={"probe": Probe(scores=(0.9, 0.2))})
    whole = scorer.fingerprint.model_copy(update={"stages": (probed, costly)})
    assert whole.is_probed
    changed = scorer.fingerprint.model_copy(update={"stages": (other, costly)})
    assert "stage 1" in whole.differences(changed)[0]
    assert not whole.differences(scorer.fingerprint)


class Doubting(FakeScorer):
    """A cheap scorer to which the passage with `maybe` tells nothing when it is strict."""

    def __init__(self, *, is_strict: bool = False) -> None:
        super().__init__({**CHEAP, "maybe": 0.0 if is_strict else 0.9})
        self.is_strict = is_strict

    @property
    def strict(self) -> Doubting:
        return Doubting(is_strict=True)

    @property
    def fingerprint(self) -> Fingerprint:
        kind = "fake_strict" if self.is_strict else "fake"
        return super().fingerprint.model_copy(update={"kind": kind})


def test_doubts_ask_about_a_match_that_may_tell_nothing() -> None:
    costly = Counting()
    scorer = CascadeScorer(Doubting(), costly, threshold=0.5, reach=0.3, doubts=True)
    questions, sets = [*QUESTIONS, "a?", "b?"], [*SETS, ["maybe"], ["maybe yes"]]
    found = [scorer.score_set(q, texts) for q, texts in zip(questions, sets, strict=True)]
    assert [one.stage for one in found[-2:]] == ["costly", "costly"]
    assert [one.joint >= 0.5 for one in found[-2:]] == [False, True]
    assert found[:-2] == cascade(Counting()).score_sets(QUESTIONS, SETS)
    assert costly.asked == ["inside", "also", "low", "inside yes", "also yes", "maybe", "maybe yes"]
    assert scorer.score_sets(questions, sets) == found
    assert asyncio.run(scorer.ascore_sets(questions, sets)) == found
    again = CascadeScorer.of(scorer.fingerprint, Doubting(), Counting())
    assert again.fingerprint == scorer.fingerprint
    assert [one.kind for one in scorer.fingerprint.stages] == ["fake", "fake", "fake_strict"]
    with pytest.raises(InputError, match="has no strict reading"):
        cascade(doubts=True)


@given(value=st.floats(0.5, 0.95), strict=st.floats(-2, 2), verdict=st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_the_served_value_is_that_of_the_rule(value: float, strict: float, verdict: float) -> None:
    class Pair(Doubting):
        def _one(self, passage: str) -> float:
            return strict if self.is_strict else value

        @property
        def strict(self) -> Doubting:
            return Pair(is_strict=True)

    costly = FakeScorer(default=verdict)
    scorer = CascadeScorer(Pair(), costly, threshold=0.5, reach=0.3, doubts=True)
    rule = CascadeRule(threshold=0.5, reach=0.3)
    wanted = rule.value(value, verdict, strict) if rule.asks(value, strict) else value
    assert scorer.score_set("q?", ["p"]).joint == wanted
