"""`knowgate calibrate --like`: the old promise on newer data, of the same instruments only."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knowgate.guard import Policy, Route
from knowgate.offline_eval.cli import app
from knowgate.offline_eval.policies.records import CalibrationSet
from tests.offline_eval.cli.commands import Knowgate, Outcome, write_lines
from tests.offline_eval.policies.measured import drawn, record_lines


def _written(path: Path, measured: CalibrationSet) -> Path:
    return write_lines(path, list(record_lines(measured)))


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a certified policy and its records."""
    folder = tmp_path_factory.mktemp("certified")
    records = _written(folder / "old.jsonl", drawn(400))
    arguments = [
        "calibrate", "--records", records, "--risk", "0.25", "--delta", "0.1",
        "--out", folder / "old.json",
    ]  # fmt: skip
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture
def old(certified: Path, tmp_path: Path) -> Path:
    """A certified policy, with its records beside it."""
    return Path(shutil.copytree(certified, tmp_path / "certified")) / "old.json"


def _recalibrate(knowgate: Knowgate, old: Path, measured: CalibrationSet) -> Outcome:
    records = _written(old.with_name("new.jsonl"), measured)
    return knowgate(
        "calibrate", "--like", old, "--records", records, "--out", old.with_name("new.json")
    )


def test_without_a_change_of_routes_a_route_that_was_not_allowed_stays_so(
    knowgate: Knowgate, old: Path
) -> None:
    allowed = (Route.FOLLOW_CONTEXT, Route.ABSTAIN)
    Policy.load(old).model_copy(update={"allowed_routes": allowed}).save(old)

    _recalibrate(knowgate, old, drawn(400, seed=1))

    after = Policy.load(old.with_name("new.json"))
    assert after.allowed_routes == allowed
    assert not after.may_answer


def test_a_coverage_is_taken_over_to_the_digit(knowgate: Knowgate, old: Path) -> None:
    old.unlink()
    knowgate("calibrate", "--records", old.with_suffix(".jsonl"), "--coverage", "0.3", "--out", old)

    outcome = _recalibrate(knowgate, old, drawn(400, seed=1))

    assert outcome.code == 0
    assert "at least 30% of the questions are let through" in outcome.out
