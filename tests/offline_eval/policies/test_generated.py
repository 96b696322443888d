"""Questions that programs made give no certificate unless that is accepted, and then it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from knowgate.calibration.risk import Leak
from knowgate.offline_eval.policies import Calibrated, calibrate_run
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.measured_run import MeasuredRun
from tests.offline_eval.cli.commands import read_lines, write_lines
from tests.offline_eval.suites.ookb.toy import run_toy, write_toy_questions

RunOf = Callable[[int], Path]


@pytest.fixture
def run_of(tmp_path: Path) -> RunOf:
    """A run of thirty questions, of which rules made the first so many."""

    def made(count: int) -> Path:
        path = write_toy_questions(tmp_path / "kb.jsonl", 30)
        rows = read_lines(path)
        for row in rows[:count]:
            row["made_by"] = "rules"
        return run_toy(write_lines(path, rows), tmp_path / "run")

    return made


def calibrated(run: Path, *, accept: bool = False) -> Calibrated:
    return calibrate_run(
        run, run.parent / "policy.json", Leak(0.3), delta=0.1, accept_generated=accept
    )


def test_a_run_and_its_records_know_who_made_each_question(run_of: RunOf) -> None:
    run = run_of(4)

    assert [row.get("made_by") for row in read_lines(run / "questions.jsonl")[3:5]] == [
        "rules",
        None,
    ]
    assert sum(bool(one.made_by) for one in MeasuredRun.read(run).questions.values()) == 4
    found = CalibrationSet.of_run(run)
    assert found.generated == pytest.approx(4 / 30)
    # The margin is learned from people's questions alone.
    assert len(found.kept_sets) <= 26


def test_more_than_a_tenth_of_them_is_refused_with_the_next_step(run_of: RunOf) -> None:
    found = calibrated(run_of(4))

    (problem,) = [one for one in found.problems if one.kind == "generated"]
    assert problem.what.startswith("Rules made 13 % of the questions behind this")
    assert "--accept-generated" in problem.hint
    assert not Path(found.measured.source).with_name("policy.json").exists()
