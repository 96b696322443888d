"""Metrics count, labels stay few, and no word of a user is logged."""

from __future__ import annotations

import gc
import logging
import weakref
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from knowgate.guard import (
    Decision,
    Guard,
    GuardMetrics,
    LanguageModelError,
    MissingDependencyError,
    Mode,
    Policy,
    Reason,
    Route,
)
from knowgate.guard._metrics import ERROR_KINDS, error_kind
from knowgate.guard.errors import LanguageModelTimeoutError, SignalValueError
from knowgate.guard.testing import FakeScorer
from tests.support.fakes import FailingScorer, FakeEstimator
from tests.support.guards import guard_with
from tests.support.hostile import hostile_inputs

MARKER = "Xylophone-4711"


def sample(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, {"guard": "default"} | labels)


def counted_guard(registry: CollectorRegistry | None, **changes: Any) -> Guard:
    return guard_with(metrics=True, registry=registry, **changes)


async def test_every_decision_is_counted_once_with_its_signals() -> None:
    registry = CollectorRegistry()
    guard = counted_guard(registry, scorer=FakeScorer({"good": 0.9}, default=0.2))
    guard.decide("q", ["good"])
    await guard.adecide("q", ["good"])
    guard.decide_batch(["q", "q"], [["good"], ["bad"]])
    await guard.adecide_batch(["q"], [[]])
    followed = {"route": "follow_context", "reason": "sufficient_context", "mode": "enforce"}
    assert sample(registry, "knowgate_decisions_total", scenario="undetermined", **followed) == 3
    unknown = {"route": "abstain", "scenario": "unknown", "mode": "enforce"}
    assert sample(registry, "knowgate_decisions_total", reason="neither_knows", **unknown) == 1
    assert sample(registry, "knowgate_decisions_total", reason="nothing_retrieved", **unknown) == 1
    assert sample(registry, "knowgate_relevance_count") == 5
    assert sample(registry, "knowgate_confidence_count") == 2
    assert sample(registry, "knowgate_stage_seconds_count", stage="total") == 5
    assert sample(registry, "knowgate_stage_seconds_count", stage="relevance") == 4


def test_shadow_decisions_are_counted_under_their_mode() -> None:
    registry = CollectorRegistry()
    counted_guard(registry, mode="shadow").decide("q", [])
    labels = {"route": "abstain", "scenario": "unknown", "reason": "nothing_retrieved"}
    assert sample(registry, "knowgate_decisions_total", mode="shadow", **labels) == 1


def test_two_guards_on_one_registry_share_its_metrics() -> None:
    registry = CollectorRegistry()
    for guard in (counted_guard(registry), counted_guard(registry)):
        guard.decide("q", [])
    assert sample(registry, "knowgate_stage_seconds_count", stage="total") == 2


def test_guards_with_names_are_counted_apart_and_each_starts_at_nothing() -> None:
    registry = CollectorRegistry()
    first, second = counted_guard(registry), counted_guard(registry, name="faq")
    first.decide("q", [])
    assert first.metrics is not None
    assert second.metrics is not None
    assert (first.metrics.abstention_rate(), second.metrics.abstention_rate()) == (1.0, None)

    second.decide("q", [])
    seconds = "knowgate_stage_seconds_count"
    assert sample(registry, seconds, stage="total") == 1
    assert sample(registry, seconds, stage="total", guard="faq") == 1
    again = counted_guard(registry).metrics
    assert again is not None
    assert again.abstention_rate() is None


def test_the_message_of_a_typed_error_is_logged_and_of_a_foreign_one_the_type(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = [SignalValueError("confidence", "no number"), RuntimeError(MARKER)]
    for error in (*errors, LanguageModelTimeoutError("no answer within 5 s")):
        guard_with(estimator=FakeEstimator(error=error)).decide("q", [])
    assert [record.getMessage() for record in caplog.records] == [
        "confidence signal failed: SignalValueError: no number",
        "confidence signal failed: SignalError: raised RuntimeError",
        "confidence signal failed: LanguageModelTimeoutError: no answer within 5 s",
    ]


def test_the_default_registry_is_prometheus_clients_own() -> None:
    before = sample(REGISTRY, "knowgate_stage_seconds_count", stage="total") or 0
    counted_guard(None).decide("q", [])
    after = sample(REGISTRY, "knowgate_stage_seconds_count", stage="total")
    assert after == before + 1
    assert GuardMetrics.on() is GuardMetrics.on(REGISTRY)


def test_a_registry_that_nobody_uses_any_more_is_let_go() -> None:
    registry = CollectorRegistry()
    counted_guard(registry).decide("q", [])
    gone = weakref.ref(registry)
    del registry
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SignalValueError("relevance", "x"), "value"),
        (LanguageModelError(MARKER), "language_model"),
        (LanguageModelTimeoutError(MARKER), "timeout"),
        (MissingDependencyError(MARKER), "missing"),
        (RuntimeError(MARKER), "other"),
    ],
)
def test_failures_are_counted_by_kind(error: Exception, kind: str) -> None:
    registry = CollectorRegistry()
    guard = counted_guard(registry, estimator=FakeEstimator(error=error))
    guard.decide("q", [])
    assert sample(registry, "knowgate_errors_total", signal="confidence", kind=kind) == 1
    assert MARKER not in generate_latest(registry).decode()


def test_labels_stay_few_whatever_is_passed_in() -> None:
    registry = CollectorRegistry()
    guard = counted_guard(
        registry, scorer=FailingScorer(ValueError(MARKER)), deadlines={"relevance": None}
    )
    logging.getLogger("knowgate.guard").disabled = True
    try:
        for question, passages in hostile_inputs(500, seed=5):
            guard.decide(question, passages)
    finally:
        logging.getLogger("knowgate.guard").disabled = False
    allowed = {
        "route": {route.value for route in Route},
        "reason": {reason.value for reason in Reason},
        "mode": {mode.value for mode in Mode},
        "kind": set(ERROR_KINDS),
        "calibrated": {"true", "false"},
        "guard": {"default"},
        "stage": {"relevance", "confidence", "conflict", "total"},
        "signal": {"relevance", "confidence", "conflict"},
        "outcome": {"drawn", "saved"},
        "queue": {"turns", "calls", "overdue_calls"},
        "cache": {"embeddings", "encoded_texts", "verdicts", "word_pieces"},
        "result": {"hit", "miss"},
        "fingerprint": {guard.policy.sha256[:12]},
        "alpha": {""},
        "delta": {""},
    }
    for metric in registry.collect():
        for found in metric.samples:
            for name, value in found.labels.items():
                assert name in {"le", "scenario"} or value in allowed[name]


def test_every_error_has_a_kind_from_the_list() -> None:
    assert error_kind(SignalValueError("relevance", "x")) in ERROR_KINDS


class Quoting(FakeScorer):
    """Raises an error whose message quotes what it was given."""

    def score_pairs(self, pairs: Any) -> Any:
        raise ValueError(f"cannot score {pairs}")


class QuotingEstimator(FakeEstimator):
    """As `Quoting`, with an error of our own tree."""

    def estimate(self, question: str) -> Any:
        raise LanguageModelError(f"cannot answer {question}")


@pytest.mark.parametrize("deadline", [None, 30.0])
async def test_no_word_of_the_user_is_logged(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], deadline: float | None
) -> None:
    caplog.set_level(logging.DEBUG)
    deadlines = dict.fromkeys(("relevance", "confidence", "conflict"), deadline)
    question, passages = f"Where is {MARKER}?", [f"{MARKER} is here."]
    for guard in (
        guard_with(scorer=Quoting(), deadlines=deadlines),
        guard_with(estimator=QuotingEstimator(), deadlines=deadlines),
        guard_with(scorer=FakeScorer(default=float("nan")), deadlines=deadlines),
    ):
        guard.decide(question, passages)
        await guard.adecide(question, passages)
        guard.decide_batch([question], [passages])
        await guard.adecide_batch([question], [passages])
    gc.collect()
    records = [r for r in caplog.records if r.name.startswith("knowgate")]
    assert len(records) >= 12
    assert {r.levelname for r in records} == {"WARNING"}
    logged = caplog.text + "".join(str(vars(r)) for r in caplog.records)
    assert MARKER not in logged
    assert MARKER not in "".join(capfd.readouterr())


def test_a_message_is_not_compared_with_a_megabyte_but_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(FakeScorer):
        def score_pairs(self, pairs: Any) -> Any:
            raise LanguageModelError("harmless message")

    for passage in ("short", "long " * 200_000):
        guard_with(scorer=Failing()).decide("q", [passage])

    assert [record.getMessage() for record in caplog.records] == [
        "relevance signal failed: LanguageModelError: harmless message",
        "relevance signal failed: LanguageModelError",
    ]


@pytest.mark.parametrize("scorer", [Quoting(), FakeScorer(default=float("nan"))])
def test_the_message_of_a_raised_error_does_not_quote_the_user(scorer: FakeScorer) -> None:
    guard = guard_with(scorer=scorer, on_error="raise")
    with pytest.raises(Exception, match="relevance signal") as raised:
        guard.decide(f"Where is {MARKER}?", [f"{MARKER} is here."])
    assert MARKER not in str(raised.value)


def test_the_abstention_rate_is_unknown_before_the_first_decision_and_right_after_it() -> None:
    scorer = FakeScorer({"good": 0.9})
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    guard = Guard(policy, scorer=scorer, metrics=GuardMetrics.on(CollectorRegistry()))
    assert guard.metrics is not None
    before = guard.metrics.abstention_rate()

    for passage in ("good", "bad", "worse", "none"):
        guard.decide("a question", [passage])

    assert before is None
    assert guard.metrics.abstention_rate() == 0.75


class _Broken(GuardMetrics):
    """Metrics whose files cannot be written."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry())

        def fails(*_: object) -> Any:
            raise OSError("no space left on device")

        for name in ("decisions", "relevance", "seconds", "errors", "guards", "turns"):
            self.families[name].labels = fails


def test_counting_that_fails_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    scorer = FakeScorer({"nine": 0.9})
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    guard = Guard(policy, scorer=scorer, metrics=_Broken())

    for _ in range(3):
        assert guard.decide("When?", ["At nine."]).route is Route.FOLLOW_CONTEXT
    assert guard.metrics is not None
    assert guard.metrics.abstention_rate() == 0.0
    lines = [one.message for one in caplog.records if "counting raised OSError" in one.message]
    assert 1 <= len(lines) <= 2


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), ValueError("text")])
def test_an_observer_cannot_end_the_process(error: BaseException) -> None:
    def leaving(decision: Decision) -> None:
        raise error

    scorer = FakeScorer({"nine": 0.9})
    policy = Policy(scorer=scorer.fingerprint, relevance_threshold=0.5)
    guard = Guard(policy, scorer=scorer, observers=[leaving], metrics=False)

    assert guard.decide("When?", ["At nine."]).route is Route.FOLLOW_CONTEXT


def test_reasons_turns_and_signals_from_outside_become_no_labels() -> None:
    registry = CollectorRegistry()
    shared = GuardMetrics.on(registry)
    metrics = shared.of(
        "default", vetoes={"too_long": "too_long"}, reasons=["too_long", "too_long_failed"]
    )
    error = SignalValueError("x", "y")
    for text in ("too_long", "a user's text", *(f"made_up_{number}" for number in range(100))):
        metrics.count_decision(Decision(route=Route.ABSTAIN, reason=text))
        metrics.count_turn(text)
        metrics.count_error(text, error)

    def counted(name: str, label: str) -> dict[str, float]:
        return {
            found.labels[label]: found.value
            for family in registry.collect()
            for found in family.samples
            if found.name == name
        }

    assert counted("knowgate_decisions_total", "reason") == {"too_long": 1, "other": 101}
    assert counted("knowgate_conversation_turns_total", "turn") == {"other": 102}
    assert counted("knowgate_errors_total", "signal") == {"too_long": 1, "other": 101}


def test_guards_made_without_end_share_labels() -> None:
    registry = CollectorRegistry()
    for number in range(100):
        metrics = GuardMetrics.on(registry).of(
            f"guard{number}", vetoes={f"veto{number}": ""}, reasons=[f"reason{number}"]
        )
        metrics.count_decision(Decision(route=Route.ABSTAIN, reason=f"reason{number}"))
        metrics.count_error(f"veto{number}", SignalValueError("x", "y"))

    values: dict[str, set[str]] = {"guard": set(), "reason": set(), "signal": set()}
    for family in registry.collect():
        for found in family.samples:
            for label in values.keys() & found.labels.keys():
                values[label].add(found.labels[label])
    assert {label: len(held) for label, held in values.items()} == {
        "guard": 33, "reason": 65, "signal": 65
    }  # fmt: skip
