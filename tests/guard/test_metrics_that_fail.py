"""Counting that fails costs no answer, and what cannot be registered is rejected at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest, values

from knowgate.guard import Decision, GuardMetrics, InputError, Route
from knowgate.guard.testing import FakeScorer
from tests.support.guards import guard_with


def counted_guard(metrics: GuardMetrics) -> Any:
    return guard_with(metrics=metrics, scorer=FakeScorer(default=0.9))


def test_a_missing_folder_of_the_multi_process_mode_costs_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "missing"))
    in_files = values.MultiProcessValue()  # type: ignore[no-untyped-call]
    monkeypatch.setattr(values, "ValueClass", in_files)

    guard = counted_guard(GuardMetrics.on(CollectorRegistry()))
    decisions: list[Decision] = [guard.decide("q", ["p"]) for _ in range(3)]

    assert {decision.route for decision in decisions} == {Route.FOLLOW_CONTEXT}
    assert guard.metrics.uncounted == 5  # the guard itself and its policy, too
    assert guard.metrics.abstention_rate() == 0.0
    assert [record.message for record in caplog.records] == [
        "metrics: counting raised FileNotFoundError; answers go on, and this is logged once"
    ]


def test_a_disk_that_is_full_costs_no_answer_and_is_logged_once_for_all_guards(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = GuardMetrics.on(CollectorRegistry())
    guards = [counted_guard(metrics) for _ in range(3)]

    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(metrics.decisions, "labels", full)
    for guard in guards:
        assert guard.decide("q", ["p"]).route is Route.FOLLOW_CONTEXT
        assert guard.metrics.uncounted == 1
    assert len(caplog.records) == 1


def test_a_registry_with_other_metrics_of_these_names_is_rejected_and_stays_as_it_was() -> None:
    registry = CollectorRegistry()
    Counter("knowgate_errors_total", "Somebody else's.", registry=registry)
    before = generate_latest(registry)

    for _ in range(2):
        with pytest.raises(InputError, match="pass metrics=") as raised:
            GuardMetrics.on(registry)
    assert isinstance(raised.value, InputError)
    assert generate_latest(registry) == before
    assert GuardMetrics.on(CollectorRegistry())
