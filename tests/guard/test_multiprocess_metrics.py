"""Several workers share a folder, `PROMETHEUS_MULTIPROC_DIR`, that one of them is scraped from."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from tests.support.guards import policy_with
from tests.support.paths import ROOT


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
