"""A monitor watches a guard: blocks, feedback, metrics, threads, restarts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from knowgate.calibration.monitoring import AlarmSettings, DecisionMonitor
from knowgate.calibration.monitoring.report import ALARMS
from knowgate.guard import Decision, InputError, Policy, Reason, Route
from knowgate.guard.artefacts import GuaranteedRisk
from knowgate.guard.testing import FakeScorer
from tests.calibration.monitoring.populations import (
    GUARANTEE,
    Question,
    asked,
    calibrated_policy,
    questions,
)
from tests.support.guards import guard_with, policy_with


def decision(policy: Policy, question: Question) -> Decision:
    route = policy.route(question.relevance, question.confidence)
    seen = asked(policy, question)
    return Decision(
        route=route,
        reason=Reason.NEITHER_KNOWS if route is Route.ABSTAIN else Reason.SUFFICIENT_CONTEXT,
        relevance=seen.relevance,
        confidence=seen.confidence,
    )


def decisions(policy: Policy, *arguments: Any, **changes: Any) -> list[Decision]:
    return [decision(policy, question) for question in questions(*arguments, **changes)]


def monitored(policy: Policy | None = None, **changes: Any) -> DecisionMonitor:
    alarms = {f.name: changes.pop(f.name) for f in fields(AlarmSettings) if f.name in changes}
    values: dict[str, Any] = {"metrics": False, "window": 400, **changes}
    values["alarms"] = AlarmSettings(**alarms)
    return DecisionMonitor(policy or calibrated_policy(), **values)


def told(monitor: DecisionMonitor, found: Iterable[Decision]) -> DecisionMonitor:
    for one in found:
        monitor(one)
    return monitor


async def test_a_guard_tells_it_every_decision_in_all_four_forms() -> None:
    monitor = monitored()
    guard = guard_with(
        calibrated_policy(), scorer=FakeScorer({"good": 0.9}, default=0.1), observers=[monitor]
    )

    guard.decide("q", ["good"])
    await guard.adecide("q", ["bad"])
    guard.decide_batch(["q", "r"], [["good"], []])
    await guard.adecide_batch(["q"], [["bad"]])

    report = monitor.report()
    assert report.decisions == 5
    assert (report.abstention.rate.value, report.abstention.rate.n) == (0.6, 5)
    assert report.drift.signals[0].n == 5
    assert "too few" in report.words


def test_drift_and_a_changed_abstention_rate_are_told() -> None:
    policy = calibrated_policy()
    monitor = told(monitored(policy), decisions(policy, 1, 400))
    told(monitor, decisions(policy, 2, 1200, relevance=1.0))

    report = monitor.report()

    assert report.alarms == ("relevance_drift", "abstention")
    assert report.abstention.change is not None
    assert report.abstention.change.direction == "up"
    assert abs(report.abstention.change.began_after - 400) < 100
    assert "it has risen" in report.words


def test_drift_is_judged_once_a_block_is_full_and_the_last_one_counts() -> None:
    policy = calibrated_policy()
    monitor = monitored(policy)
    shifted = decisions(policy, 2, 400, relevance=1.0)

    early = told(monitor, shifted[:399]).report()
    assert early.alarms == ("abstention",)
    assert early.drift.signals[0].verdict == "not judged yet"
    assert early.drift.signals[0].p_value is not None
    assert "relevance: not judged yet in 399 values" in early.words
    assert told(monitor, shifted[399:]).report().alarms[0] == "relevance_drift"
    assert monitor.report().drift.signals[0].verdict == "drifted"
    same = decisions(policy, 3, 400)
    assert told(monitor, same[:399]).report().alarms[0] == "relevance_drift"
    assert "relevance_drift" not in told(monitor, same[399:]).report().alarms


def test_feedback_is_held_against_the_guarantee_for_all_routes_and_each() -> None:
    monitor = monitored()
    for i in range(60):
        monitor.feedback("follow_context", i % 2 == 0)
        monitor.feedback(Route.ANSWER, True)

    report = monitor.report()

    assert {name: state.estimate.value for name, state in report.risks.items()} == {
        "all": 0.25, "follow_context": 0.5, "answer": 0.0,
    }  # fmt: skip
    assert {name: state.alarm for name, state in report.risks.items()} == {
        "all": True, "follow_context": True, "answer": False,
    }  # fmt: skip
    assert report.alarms == ("risk",)
    assert "risk: 25.0% wrong of 120" in report.words
    assert "the bound of 10.0% is exceeded" in report.words


def promising(**bounds: float) -> Policy:
    """A policy whose guarantee has these risks, the first of them the main one."""
    risks = tuple(
        GuaranteedRisk(kind=kind, bound=bound, n=300, loss=9, p_value=0.01)
        for kind, bound in bounds.items()
    )
    found = GUARANTEE.model_copy(update={"risk": risks[0].bound, "risks": risks})
    return policy_with(guarantee=found)


@pytest.mark.parametrize(
    ("bounds", "watched"),
    [
        ({"selective": 0.2}, {"all": 0.2, "follow_context": 0.2, "answer": 0.2}),
        ({"follow": 0.1, "answer": 0.3}, {"all": 0.3, "follow_context": 0.1, "answer": 0.3}),
        ({"follow": 0.1}, {"follow_context": 0.1}),
        ({"false_abstention": 0.9, "selective": 0.3, "answer": 0.1},
         {"all": 0.3, "follow_context": 0.3, "answer": 0.1}),
        ({"cost": 0.2}, {}),
        ({"abstention": 0.4}, {}),
    ],
)  # fmt: skip
def test_what_is_watched_is_what_the_guarantee_promises(
    bounds: dict[str, float], watched: dict[str, float]
) -> None:
    risks = monitored(promising(**bounds)).report().risks
    assert {name: state.risk for name, state in risks.items()} == watched
    assert {name for name, state in risks.items() if state.promised} == {
        {"selective": "all", "follow": "follow_context", "answer": "answer"}[kind]
        for kind in bounds
        if kind in ("selective", "follow", "answer")
    }


def test_a_promise_for_each_route_is_broken_by_one_route() -> None:
    monitor = monitored(promising(follow=0.1, answer=0.1), run_length=1000)
    for i in range(600):
        monitor.feedback("follow_context", True)
        if i % 20 == 0:
            monitor.feedback("answer", i % 40 == 0)

    report = monitor.report()

    assert {name: state.alarm for name, state in report.risks.items()} == {
        "all": False, "follow_context": False, "answer": True,
    }  # fmt: skip
    assert report.risks["answer"].delta == pytest.approx(0.05)  # two promises share δ
    assert "risk" in report.alarms
    assert report.risks["all"].rise is None


def test_a_late_rise_of_the_risk_is_seen_though_the_beginning_was_good() -> None:
    monitor = monitored(run_length=1000)
    for step in range(2300):
        monitor.feedback("answer", step < 2000 or step % 3 > 0)

    report = monitor.report()

    assert report.alarms == ("risk_rise",)
    assert report.risk_rise is not None
    assert 1950 <= report.risk_rise.began_after <= 2010
    assert not report.risks["all"].alarm
    monitor.reset()
    assert monitor.report().risk_rise is None


def test_reset_begins_anew() -> None:
    policy = calibrated_policy()
    monitor = told(monitored(policy), decisions(policy, 2, 500, relevance=0.7))
    for _ in range(30):
        monitor.feedback("answer", False)
    assert {"risk", "abstention"} <= set(monitor.report().alarms)

    monitor.reset(abstention=False, drift=False)
    assert monitor.report().risks["all"].labels == 0
    assert "abstention" in monitor.report().alarms
    monitor.reset(drift=False)
    assert monitor.report().alarms == ("relevance_drift",)
    monitor.reset()
    assert monitor.report().alarms == ()
    assert told(monitor, decisions(policy, 3, 400)).report().alarms == ()


def test_a_restart_loses_nothing() -> None:
    policy = calibrated_policy()
    kept = told(monitored(policy), decisions(policy, 1, 950))
    for i in range(50):
        kept.feedback("answer", i % 4 > 0)

    saved = monitored(policy)
    saved.restore(json.loads(json.dumps(kept.to_dict(), allow_nan=False)))

    for monitor in (kept, saved):
        told(monitor, decisions(policy, 2, 700, relevance=1.0))
        monitor.feedback("follow_context", True)
    assert saved.to_dict() == kept.to_dict()
    assert saved.report().to_dict() == kept.report().to_dict()


def test_a_state_whose_rates_differ_in_the_last_digits_is_restored_others_are_not() -> None:
    policy = calibrated_policy()
    state = told(monitored(policy), decisions(policy, 1, 450)).to_dict()
    detector = state["detector"]
    state["detector"] = {**detector, "low": detector["low"] * (1 + 1e-12)}
    monitored(policy).restore(state)
    state["detector"] = {**detector, "low": detector["low"] * (1 + 1e-6)}
    with pytest.raises(InputError, match="other settings"):
        monitored(policy).restore(state)


def test_many_threads_lose_no_decision_and_no_label() -> None:
    policy = calibrated_policy()
    monitor = monitored(policy, window=1000)
    parts = [decisions(policy, seed, 300) for seed in range(8)]

    def work(part: list[Decision]) -> None:
        for i, one in enumerate(part):
            monitor(one)
            if i % 3 == 0:
                monitor.feedback("answer", i % 2 == 0)
            if i % 150 == 0:
                monitor.report()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, parts))

    report = monitor.report()
    assert report.decisions == 2400
    assert report.risks["all"].labels == 800
    assert report.drift.decisions == 1000


def test_the_metrics_are_the_report_under_few_fixed_labels() -> None:
    registry = CollectorRegistry()
    policy = calibrated_policy()
    monitor = monitored(policy, metrics=True, registry=registry)
    told(monitor, decisions(policy, 2, 400, relevance=1.0))
    for i in range(40):
        monitor.feedback("answer", i % 2 == 0)
    report = monitor.report()

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"knowgate_{name}", labels)

    relevance = report.drift.signals[0]
    assert relevance.psi is not None
    assert relevance.ks is not None
    assert relevance.verdict == "drifted"
    assert sample("drift_psi", signal="relevance", bound="estimate") == relevance.psi.value
    assert sample("drift_psi_without_drift", signal="relevance") == relevance.psi.without_drift
    assert sample("drift_ks", signal="relevance", bound="estimate") == relevance.ks.value
    assert sample("drift_p_value", signal="relevance") == relevance.p_value
    assert sample("drift_values", signal="relevance") == 400
    assert sample("abstention_rate", bound="estimate") == report.abstention.rate.value
    assert sample("abstention_change_evidence_log10", direction="up") is not None
    assert sample("risk", route="all", bound="estimate") == 0.5
    assert sample("risk_target", route="answer") == 0.1
    assert sample("risk_labels", route="follow_context") == 0
    assert sample("risk", route="follow_context", bound="estimate") is None
    assert (
        sample("risk_evidence_log10", route="all")
        == report.to_dict()["risks"]["all"]["log10_evidence"]
    )
    assert sample("risk_alarm", route="all") == 1
    assert {kind for kind in ALARMS if sample("alarm", kind=kind)} == set(report.alarms)
    text = generate_latest(registry).decode()
    assert "NaN" not in text
    assert text.count("# TYPE") == 14


def test_a_report_that_fails_costs_the_scrape_no_other_metric(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = CollectorRegistry()
    Counter("requests", "Of the application.", registry=registry).inc()
    monitor = monitored(metrics=True, registry=registry)

    def breaks() -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(monitor, "report", breaks)
    for failures in (1, 2):
        page = generate_latest(registry).decode()
        assert "requests_total 1.0" in page
        assert f"knowgate_monitor_failures {failures}.0" in page
    monitor.close()
    assert len(caplog.records) == 1
