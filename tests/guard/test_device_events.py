"""What devices do is counted in every registry, also what happened before it was made."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from knowgate.guard import GuardMetrics, process


def value(registry: CollectorRegistry, event: str) -> float | None:
    return registry.get_sample_value("knowgate_device_events_total", {"event": event})


def test_every_registry_shows_the_counts_of_the_process() -> None:
    first, second = CollectorRegistry(), CollectorRegistry()
    kept = GuardMetrics.on(first)
    before = process.counts()["device_lost"]
    process.count("device_lost")
    also_kept = GuardMetrics.on(second)
    process.count("device_lost", 2)
    assert value(first, "device_lost") == value(second, "device_lost") == before + 3
    assert all(value(first, event) is not None for event in process.DEVICE_EVENTS)
    assert kept is not also_kept


def test_counting_never_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = GuardMetrics.on(CollectorRegistry())

    def fail(event: str) -> None:
        raise OSError

    monkeypatch.setattr(metrics.devices, "labels", fail)
    process.count("failed")
