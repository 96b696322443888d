"""A real Prometheus scrapes a guard, evaluates the rules and answers the dashboard's queries."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, start_http_server

from knowgate.calibration.monitoring import DecisionMonitor
from knowgate.guard.testing import FakeScorer
from knowgate.offline_eval.cli._dashboards import AlertLimits, render_dashboards
from tests.calibration.monitoring.populations import calibrated_policy
from tests.support.guards import guard_with
from tests.support.prometheus import Prometheus, needs_prometheus, prometheus

DASHBOARD, RULES = render_dashboards(AlertLimits())


@needs_prometheus
@pytest.mark.enable_socket
def test_the_abstention_ratio_is_what_the_guard_decided(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    policy = calibrated_policy()
    monitor = DecisionMonitor(policy, registry=registry)
    monitor.feedback("follow_context", True)
    guard = guard_with(
        policy,
        scorer=FakeScorer({"good": 0.9}, default=0.1),
        metrics=True,
        registry=registry,
        observers=[monitor],
    )

    def decide(good: int, bad: int) -> None:
        for passage in ("good",) * good + ("bad",) * bad:
            guard.decide("When?", [passage])

    decide(20, 20)
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    target = f"127.0.0.1:{server.server_port}"
    try:
        with prometheus(tmp_path, target, RULES) as there:
            decided = "sum(knowgate_decisions_total)"
            # Targets are found five seconds after the start.
            there.wait_until(lambda: there.value(decided) == 40)
            decide(60, 20)
            there.wait_until(lambda: there.value(decided) == 120)
            ratio = "knowgate:abstention_ratio:rate5m"
            there.wait_until(lambda: (there.value(ratio) or 0) == pytest.approx(0.25, abs=0.05))

            # A scrape that a busy machine is late with leaves a gap until the next one.
            info = 'count(knowgate_policy_info{calibrated="true", alpha="0.1"} == 1)'
            there.wait_until(lambda: there.value(info) == 1)
            there.wait_until(
                lambda: [one["health"] for one in there.get("targets")["activeTargets"]] == ["up"]
            )
            groups = there.get("rules")["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            assert len(rules) >= 15
            assert {rule.get("lastError", "") for rule in rules} == {""}
            there.wait_until(lambda: filled_panels(there) >= WITH_DATA)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# Panels about what this guard and its monitor did.
WITH_DATA = {
    "Abstention rate", "Abstention rate by reason", "Alarms of the monitor", "Confidence",
    "Decisions by route", "Decisions due to failures", "Drift", "Latency by stage, p95",
    "Feedback", "Latency of decisions", "Policy", "Queues", "Relevance", "Risk against its bound",
    "Samples for confidence",
}  # fmt: skip


def filled_panels(there: Prometheus) -> set[str]:
    """The titles of the panels whose queries have all been answered with data."""
    found = set()
    for panel in DASHBOARD["panels"]:
        answers = []
        for asked in panel.get("targets", ()):
            expr = asked["expr"].replace("$__rate_interval", "5m")
            for name in ("$job", "$guard"):
                expr = expr.replace(name, ".*")
            answers.append(there.get("query", query=expr)["result"])
        if answers and all(answers):
            found.add(panel["title"])
    return found
