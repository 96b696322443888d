"""Samples, vetoes, the policy, caches and queues are counted where they happen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from knowgate.guard import (
    Confidence,
    Fingerprint,
    Guard,
    GuardMetrics,
    Policy,
    Request,
    Veto,
    process,
)
from knowgate.guard._byte_cache import ByteCache
from knowgate.guard.errors import SignalValueError
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FakeEstimator
from tests.support.guards import guard_with, policy_with


class SamplingEstimator(FakeEstimator):
    """Draws seven samples of ten."""

    def estimate(self, question: str) -> Confidence:
        return Confidence(0.9, "nine", samples_drawn=7, samples_saved=3, calls=8)

    async def aestimate(self, question: str) -> Confidence:
        return self.estimate(question)


class ManyEstimator(SamplingEstimator):
    """Takes several questions at once."""

    def estimate_many(self, questions: Any, **_: Any) -> Any:
        return [self.estimate(one) for one in questions]

    async def aestimate_many(self, questions: Any, **_: Any) -> Any:
        return self.estimate_many(questions)


@pytest.mark.parametrize("estimator", [SamplingEstimator, ManyEstimator])
async def test_samples_drawn_and_saved_are_counted_in_every_form(estimator: Any) -> None:
    registry = CollectorRegistry()
    guard = guard_with(estimator=estimator(), metrics=True, registry=registry)
    guard.decide("q", ["bad"])
    await guard.adecide("q", ["bad"])
    guard.decide_batch(["q", "q"], [["bad"], ["bad"]])
    await guard.adecide_batch(["q"], [["bad"]])
    counted = [
        registry.get_sample_value(
            "knowgate_samples_total", {"guard": "default", "outcome": outcome}
        )
        for outcome in ("drawn", "saved")
    ]
    assert counted == [35, 15]


class Long(Veto[int]):
    """The length of a question; fails for those of one letter."""

    reason, needs_passages, threshold = "too_long", False, 10

    def __init__(self, name: str, cost: float) -> None:
        self.name, self.cost = name, cost

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind=self.name)

    def measure(self, request: Request) -> int:
        if len(request.question) == 1:
            raise SignalValueError(self.name, "too short")
        return len(request.question)


def test_vetoes_are_counted_by_what_they_led_to() -> None:
    """Both have the same reason; the second one is never reached where the first abstains."""
    registry = CollectorRegistry()
    vetoes = [Long("first", 1), Long("second", 2)]
    vetoes[0].threshold = 20
    guard = guard_with(
        vetoes=vetoes, metrics=True, registry=registry, on_error={"first": "follow_context"}
    )
    for question in ("four", "ten_or_more", "twenty letters, and more", "x"):
        guard.decide(question, ["p"])

    def counted(veto: str) -> dict[str, float]:
        return {
            found.labels["outcome"]: found.value
            for family in registry.collect()
            for found in family.samples
            if found.name == "knowgate_vetoes_total" and found.labels["veto"] == veto
        }

    assert counted("first") == {"passed": 2, "abstained": 1, "failed": 1}
    assert counted("second") == {"passed": 1, "abstained": 1, "failed": 1}


def shown(registry: CollectorRegistry, name: str) -> dict[tuple[str, ...], float]:
    return {
        tuple(found.labels.values()): found.value
        for family in registry.collect()
        for found in family.samples
        if found.name == name
    }


def test_the_policy_that_serves_is_shown_and_the_one_before_is_not(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    path = tmp_path / "policy.json"
    scorer = FakeScorer()
    first = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    second = first.model_copy(update={"relevance_threshold": 0.6})
    for policy in (first, second):
        policy.save(path)
        os.utime(path, (1000, 2000))
        Guard.load(path, scorer=scorer, metrics=GuardMetrics.on(registry))

    assert shown(registry, "knowgate_policy_info") == {
        ("policy", first.sha256[:12], "false", "", ""): 0,
        ("policy", second.sha256[:12], "false", "", ""): 1,
    }
    written = shown(registry, "knowgate_policy_written_timestamp_seconds")
    assert written == {("policy",): 2000}


def test_policies_without_end_share_a_label() -> None:
    registry = CollectorRegistry()
    for number in range(100):
        guard_with(policy_with(note=str(number)), metrics=True, registry=registry)
    found = shown(registry, "knowgate_policy_info")
    assert len(found) == 65
    assert [labels[1] for labels, value in found.items() if value == 1] == ["other"]


def test_lookups_of_a_cache_with_a_name_are_counted() -> None:
    registry = CollectorRegistry()
    kept = GuardMetrics.on(registry)

    def counted() -> list[float]:
        found = shown(registry, "knowgate_cache_lookups_total")
        return [found.get(("verdicts", result), 0) for result in ("hit", "miss")]

    hits, misses = counted()
    cache: ByteCache[str, str] = ByteCache(10_000, len, "verdicts")
    cache.keep({"a": "x"})
    cache.found(["a", "b", "a"])
    ByteCache[str, str](10_000, len).found(["a"])
    assert counted() == [hits + 2, misses + 1]
    assert kept is GuardMetrics.on(registry)


def test_a_registry_shows_what_the_process_counted_before_it_was_made() -> None:
    first, second = CollectorRegistry(), CollectorRegistry()
    kept = [GuardMetrics.on(first)]
    process.add("caches", ("verdicts", "miss"), 1)
    kept.append(GuardMetrics.on(second))
    process.add("caches", ("verdicts", "miss"), 2)
    labels = {"cache": "verdicts", "result": "miss"}
    name = "knowgate_cache_lookups_total"
    shown = [one.get_sample_value(name, labels) for one in (first, second)]
    assert shown == [process.totals("caches")["verdicts", "miss"]] * len(kept)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_begins_at_nothing() -> None:
    process.add("caches", ("verdicts", "hit"), 1)
    process.change_queue("turns", 3)
    try:
        child = os.fork()
        if child == 0:
            os._exit(len(process.totals("caches")) + len(process.totals("queues")))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        process.change_queue("turns", -3)
