"""`knowgate drift`: live decisions against the policy that served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.calibration.monitoring.populations import calibrated_policy, questions
from tests.offline_eval.cli.commands import Knowgate, Outcome, write_lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a policy."""
    calibrated_policy().save(tmp_path / "policy.json")
    return tmp_path


def signals(path: Path, *arguments: Any, **changes: Any) -> Path:
    found = questions(*arguments, **changes)
    return write_lines(
        path, [{"relevance": q.relevance, "confidence": q.confidence} for q in found]
    )


def decided(knowgate: Knowgate, folder: Path, **changes: Any) -> Path:
    """Decisions as `knowgate route` writes them."""
    source = signals(folder / "signals.jsonl", 1, 600, **changes)
    done = knowgate(
        "apply", "--policy", folder / "policy.json", "--input", source,
        "--output", folder / "decisions.jsonl",
    )  # fmt: skip
    assert done.code == 0
    return folder / "decisions.jsonl"


def drift(knowgate: Knowgate, folder: Path, *options: str | Path) -> Outcome:
    return knowgate(
        "drift", "--policy", folder / "policy.json", "--input", folder / "decisions.jsonl", *options
    )


def test_drift_fails_the_gate_only_where_there_is_one(knowgate: Knowgate, folder: Path) -> None:
    decided(knowgate, folder, relevance=1.0)

    assert drift(knowgate, folder).code == 0
    outcome = drift(knowgate, folder, "--fail-on-drift")
    report = json.loads(drift(knowgate, folder, "--json").out)

    assert outcome.code == 1
    assert "alarms: relevance_drift, abstention" in outcome.out
    assert report["alarms"] == ["relevance_drift", "abstention"]
    assert report["decisions"] == report["drift"]["decisions"] == 600
    assert report["drift"]["signals"][0]["verdict"] == "drifted"
    assert report["abstention"]["change"]["direction"] == "up"


def test_feedback_is_held_against_the_promise(knowgate: Knowgate, folder: Path) -> None:
    decided(knowgate, folder)
    feedback = write_lines(
        folder / "feedback.jsonl",
        [{"route": ("answer", "follow_context")[i % 2], "right": i % 3 > 0} for i in range(90)],
    )

    outcome = drift(knowgate, folder, "--feedback", feedback, "--fail-on-drift")

    assert outcome.code == 1
    assert "risk: 33.3% wrong of 90" in outcome.out
    assert "the bound of 10.0% is exceeded" in outcome.out
    assert "risk" in outcome.out.split("alarms: ")[1]

    outcome = drift(knowgate, folder, "--feedback", feedback, "--risk", "0.6", "--fail-on-drift")
    assert outcome.code == 0
    assert "the bound of 60.0% is kept" in outcome.out
