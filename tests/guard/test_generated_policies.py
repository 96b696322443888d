"""A policy whose calibration questions programs made says so wherever it serves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from knowgate.guard import Guard, GuardMetrics, Policy, PolicyError
from knowgate.guard.testing import FakeScorer


def policy(generated: float, **fields: Any) -> Policy:
    return Policy(
        scorer=FakeScorer().fingerprint,
        relevance_threshold=0.5,
        calibration_set_sha256="0" * 64,
        note="Rules made them.",
        generated=generated,
        **fields,
    )


@pytest.mark.parametrize(
    ("share", "state"), [(0.0, "costs"), (0.1, "costs"), (0.11, "generated"), (1.0, "generated")]
)
def test_more_than_a_tenth_of_them_makes_another_state(share: float, state: str) -> None:
    assert policy(share).state == state
    assert policy(share, changed=True).state == "changed"


def test_it_survives_its_file_and_cannot_be_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "policy.json"
    policy(1.0).save(path)
    assert Policy.load(path) == policy(1.0)
    fields = json.loads(path.read_text(encoding="utf-8"))
    del fields["generated"]
    path.write_text(json.dumps(fields), encoding="utf-8")

    with pytest.raises(PolicyError, match="not as it was calibrated"):
        Policy.load(path)


def test_the_metrics_and_the_log_of_a_guard_say_it(caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    with caplog.at_level("WARNING", "knowgate.guard"):
        guard = Guard(policy(1.0), scorer=FakeScorer(), metrics=GuardMetrics.on(registry))
        guard.decide("Where?", ["Here."])

    labels = {"guard": "default", "calibrated": "generated"}
    assert registry.get_sample_value("knowgate_guards_total", labels) == 1
    (shown,) = [
        one.labels
        for family in registry.collect()
        for one in family.samples
        if one.name == "knowgate_policy_info"
    ]
    assert shown["calibrated"] == "generated"
    assert caplog.text.count("Rules made them.") == 1
