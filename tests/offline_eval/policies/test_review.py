"""Reviewed runs as calibration records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Leak
from knowgate.offline_eval.policies import calibrate_records
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.measured_run import Review
from tests.offline_eval.suites.ookb.toy import run_toy, write_toy_questions

ELSEWHERE = CalibrationRecord.ELSEWHERE


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    return run_toy(write_toy_questions(folder / "kb.jsonl", 12), folder / "run")


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "run"))


def say(run: Path, **verdicts: Review.Verdict | None) -> None:
    Review.log(run).append(
        Review(case_id=f"{name[1:]}-ü/left_out", verdict=said) for name, said in verdicts.items()
    )


def cases(found: CalibrationSet) -> dict[tuple[str, str], bool | None]:
    return {(r.question_id, r.case): r.context_right for r in found.records}


def test_an_answered_case_becomes_answerable_and_others_stay_leaks(run: Path) -> None:
    say(
        run,
        q1=Review.Verdict.ANSWERED,
        q2=Review.Verdict.UNSURE,
        q3=Review.Verdict.NOT_ANSWERED,
        q4=Review.Verdict.ANSWERED,
    )
    say(run, q4=None)
    found = CalibrationSet.of_run(run)

    assert cases(found)["1-ü", ELSEWHERE] is True
    assert ("1-ü", "left_out") not in cases(found)
    for number in (2, 3, 4, 5):
        assert cases(found)[f"{number}-ü", "left_out"] is False
    assert found.reviews == {
        "1-ü": Review.Verdict.ANSWERED,
        "2-ü": Review.Verdict.UNSURE,
        "3-ü": Review.Verdict.NOT_ANSWERED,
    }
    assert "of 12 left-out questions, 1 was found by review" in found.population


def test_a_calibration_after_further_reviews_is_no_new_attempt(run: Path) -> None:
    for _ in range(2):
        calibrate_records(CalibrationSet.of_run(run), Leak(0.3), delta=0.1, counted=True)
        say(run, q1=Review.Verdict.ANSWERED)
    lines = (run / "calibrations.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["number"] for line in lines] == [1]
