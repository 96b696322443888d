"""Metrics that fail cost no answer, and several workers share a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest, values
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from knowgate.guard import Decision, GuardMetrics, InputError, Route
from knowgate.guard.testing import FakeScorer
from tests.support.guards import guard_with, policy_with
from tests.support.paths import ROOT


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

    monkeypatch.setattr(metrics.families["decisions"], "labels", full)
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


@contextmanager
def worker(folder: Path, decisions: int, waiting: int) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.guard.serving_worker", str(decisions), str(waiting)],
        env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


def test_the_numbers_of_two_workers_are_put_together(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(tmp_path))  # type: ignore[no-untyped-call]

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    total = {"guard": "default", "stage": "total"}
    info = {
        "guard": "default", "fingerprint": policy_with().sha256[:12], "calibrated": "false",
        "alpha": "", "delta": "",
    }  # fmt: skip
    with ExitStack() as both:
        first, second = (
            both.enter_context(worker(tmp_path, decisions, waiting))
            for decisions, waiting in ((3, 2), (4, 5))
        )
        ready(first)
        ready(second)

        assert value("knowgate_stage_seconds_count", **total) == 7
        assert value("knowgate_relevance_count", guard="default") == 7
        assert value("knowgate_policy_info", **info) == 1
        assert value("knowgate_queue_depth", queue="calls") == 2 + 5
        assert value("knowgate_queue_depth", queue="overdue_calls") == 1 + 1
        assert value("knowgate_queue_depth", queue="turns") == 0
        labels = {
            label for family in registry.collect() for s in family.samples for label in s.labels
        }
        assert "pid" not in labels

        first.kill()
        first.wait()
        mark_process_dead(first.pid, str(tmp_path))  # type: ignore[no-untyped-call]

        assert value("knowgate_stage_seconds_count", **total) == 7
        assert value("knowgate_queue_depth", queue="calls") == 5
        assert value("knowgate_policy_info", **info) == 1
