"""A veto of one's own takes one class: metric label, deadline, failure route, policy entry."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import date
from typing import Any

import pytest
from langchain_core.documents import Document
from prometheus_client import CollectorRegistry

from knowgate.guard import (
    Decision,
    Fingerprint,
    FingerprintMismatchError,
    Guard,
    GuardMetrics,
    InputError,
    Policy,
    PolicyError,
    Request,
    Route,
    SignalError,
    SignalTimeoutError,
    Veto,
)
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import ScriptedAnswerability
from tests.support.guards import guard_with, policy_with, without_timings

TODAY = date(2026, 6, 1)
NEW = Document("It opens at nine.", metadata={"date": "2026-05-01"})
OLD = Document("It opens at ten.", metadata={"date": "2024-05-01"})


class StalePassage(Veto[float]):
    """Abstains when a passage is older than a year, by its metadata or a date in its text."""

    name = "passage_age"
    reason = "passage_too_old"
    threshold = 365.0
    deadline = 30.0
    cost = 0.1

    def __init__(self, today: date = TODAY) -> None:
        self._today = today
        vars(self)["level"] = 1  # a name of its own, which the guard does not take for its own

    @property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint(kind="passage_age", settings={"today": self._today.isoformat()})

    def measure(self, request: Request) -> float:
        pairs = zip(request.documents, request.passages, strict=True)
        return max(self._days(document, text) for document, text in pairs)

    def _days(self, document: object, text: str) -> float:
        written = getattr(document, "metadata", {}).get("date")
        found = re.search(r"\d{4}-\d\d-\d\d", written or text)
        return (self._today - date.fromisoformat(found[0])).days if found else 0.0


CASES: list[tuple[str, Any]] = [
    ("When?", [NEW]),
    ("When?", [NEW, OLD]),
    ("When?", ["Written on 2020-01-01: at eight."]),
    ("When?", ["Undated: at eight.", "", NEW]),
    ("When?", []),
    ("", [OLD]),
]


def guard_against_stale(veto: Veto[Any] | None = None, **changes: Any) -> Guard:
    return guard_with(scorer=FakeScorer(default=0.9), vetoes=[veto or StalePassage()], **changes)


async def in_every_form(guard: Guard, cases: list[tuple[str, Any]]) -> list[list[Decision]]:
    questions, passages = [q for q, _ in cases], [p for _, p in cases]
    return [
        [guard.decide(q, p) for q, p in cases],
        list(await asyncio.gather(*(guard.adecide(q, p) for q, p in cases))),
        guard.decide_batch(questions, passages),
        await guard.adecide_batch(questions, passages),
    ]


async def test_a_stale_passage_abstains_with_its_own_reason_in_every_form() -> None:
    forms = await in_every_form(guard_against_stale(), CASES)

    expected = [without_timings(decision) for decision in forms[0]]
    for decisions in forms[1:]:
        assert [without_timings(decision) for decision in decisions] == expected
    assert [str(decision.reason) for decision in forms[0]] == [
        "sufficient_context",
        "passage_too_old",
        "passage_too_old",
        "sufficient_context",
        "nothing_retrieved",
        "invalid_input",
    ]
    stale = forms[0][1]
    assert stale.route is Route.ABSTAIN
    assert stale.vetoes == {"passage_age": 761.0}
    assert stale.relevance is None  # the veto came first
    assert set(stale.timings) == {"passage_age", "total"}


def test_the_veto_has_metric_labels_of_its_own() -> None:
    registry = CollectorRegistry()
    guard = guard_against_stale(metrics=GuardMetrics(registry))

    guard.decide("When?", [OLD])
    guard.decide("When?", [Document("Undated.", metadata={"date": "2024-99-99"})])

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"guard": "default"} | labels)

    abstained = {"route": "abstain", "scenario": "undetermined", "mode": "enforce"}
    assert sample("knowgate_decisions_total", reason="passage_too_old", **abstained) == 1
    assert sample("knowgate_decisions_total", reason="passage_age_failed", **abstained) == 1
    assert sample("knowgate_errors_total", signal="passage_age", kind="other") == 1
    assert sample("knowgate_stage_seconds_count", stage="passage_age") == 2


class SlowVeto(StalePassage):
    """Takes its time."""

    def measure(self, request: Request) -> float:
        time.sleep(0.3)
        return 0.0


async def test_a_failing_veto_has_a_deadline_and_a_route_in_every_form() -> None:
    cases = [("When?", [NEW])]
    soon = {"passage_age": 0.02}

    for [found] in await in_every_form(guard_against_stale(SlowVeto(), deadlines=soon), cases):
        assert (found.route, found.reason) == (Route.ABSTAIN, "passage_age_failed")
        assert found.failed_signals == ("passage_age",)
    goes_on = guard_against_stale(
        SlowVeto(), deadlines=soon, on_error={"passage_age": "follow_context"}
    )
    for [found] in await in_every_form(goes_on, cases):
        assert (found.route, found.failed_signals) == (Route.FOLLOW_CONTEXT, ("passage_age",))
    raising = guard_against_stale(SlowVeto(), deadlines=soon, on_error="raise")
    with pytest.raises(SignalTimeoutError):
        raising.decide("When?", [NEW])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "old", True, None, 10**400])
def test_a_veto_that_measures_no_number_fails(value: Any) -> None:
    class Rubbish(StalePassage):
        def measure(self, request: Request) -> float:
            found: float = value
            return found

    assert guard_against_stale(Rubbish()).decide("q", ["p"]).reason == "passage_age_failed"
    with pytest.raises(SignalError, match="passage_age"):
        guard_against_stale(Rubbish(), on_error="raise").decide("q", ["p"])


def test_the_policy_binds_the_veto_and_sets_its_threshold(tmp_path: Any) -> None:
    path = tmp_path / "policy.json"
    policy_with(confidence_threshold=None).with_veto(StalePassage(), threshold=1000).save(path)
    policy = Policy.load(path)
    [binding] = policy.vetoes

    assert (binding.name, binding.threshold) == ("passage_age", 1000.0)
    guard = Guard.load(path, scorer=FakeScorer(default=0.9), vetoes=[StalePassage()], metrics=False)
    assert guard.decide("When?", [OLD]).route is Route.FOLLOW_CONTEXT  # 761 days are fine here
    with pytest.raises(PolicyError, match="needs the veto passage_age"):
        Guard.load(path, scorer=FakeScorer(), metrics=False)
    with pytest.raises(FingerprintMismatchError, match="today"):
        Guard.load(path, scorer=FakeScorer(), vetoes=[StalePassage(date(2027, 1, 1))])
    unbound = policy.model_copy(update={"vetoes": ()})
    with pytest.raises(PolicyError, match="not bound to the veto passage_age"):
        Guard(unbound, scorer=FakeScorer(), vetoes=[StalePassage()], metrics=False)


def test_cheap_vetoes_are_measured_first_and_settle_it() -> None:
    premise = ScriptedAnswerability()
    guard = guard_with(scorer=FakeScorer(default=0.9), vetoes=[premise, StalePassage()])

    assert guard.decide("When?", [OLD]).reason == "passage_too_old"
    assert premise.calls == 0
    assert guard.decide("When?", [NEW]).route is Route.FOLLOW_CONTEXT
    assert premise.calls == 1


class LongQuestion(StalePassage):
    """Looks at the question alone."""

    needs_passages = False

    def measure(self, request: Request) -> float:
        return 1000.0 * (len(request.question) > 10)


def test_a_veto_on_the_question_alone_is_asked_where_nothing_was_retrieved() -> None:
    guard = guard_against_stale(LongQuestion())

    assert guard.decide("a question at length", []).reason == "passage_too_old"
    assert guard.decide("short", []).reason == "nothing_retrieved"
    # A policy that can only abstain asks nothing.
    closed = guard_against_stale(
        LongQuestion(), policy=policy_with(relevance_threshold=None, confidence_threshold=None)
    )
    assert closed.decide("a question at length", []).vetoes == {}


class Counting(StalePassage):
    """Measures many questions in one call."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def measure_many(self, requests: Any) -> list[float]:
        self.sizes.append(len(requests))
        return [self.measure(request) for request in requests]


def test_a_veto_that_measures_many_is_asked_once_per_batch() -> None:
    veto = Counting()
    decisions = guard_against_stale(veto).decide_batch(["a", "b"], [[OLD], [NEW]])

    assert veto.sizes == [2]
    assert [str(one.reason) for one in decisions] == ["passage_too_old", "sufficient_context"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": None}, "the name of a Odd is None — use at most 40"),
        ({"name": "Passage Age"}, "the name of a Odd is 'Passage Age' — use at most 40"),
        ({"threshold": float("nan")}, "veto passage_age: field 'threshold'"),
    ],
)
def test_a_policy_is_not_bound_to_an_unusable_veto(changes: dict[str, Any], why: str) -> None:
    policy = Policy(scorer=FakeScorer().fingerprint, relevance_threshold=0.5)
    with pytest.raises(InputError, match=why):
        policy.with_veto(type("Odd", (StalePassage,), changes)())


def test_the_reason_of_a_veto_is_the_one_that_the_guard_was_built_with() -> None:
    veto = StalePassage()
    guard = guard_against_stale(veto)
    vars(veto)["reason"] = None
    assert str(guard.decide("a", [OLD]).reason) == "passage_too_old"
