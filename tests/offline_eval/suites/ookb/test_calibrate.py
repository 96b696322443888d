"""From a run to a policy, what stops that, and cases that never calibrate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowgate.calibration.risk import Leak
from knowgate.guard import InputError, Policy, Route
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.policies import Calibrated, calibrate_run
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.suites.ookb._signals_report import signals_document
from knowgate.offline_eval.suites.ookb.instruments import Instruments
from knowgate.offline_eval.suites.ookb.signals import SignalsSummary
from tests.offline_eval.suites.ookb.toy import ToyEncoder, embed, run_toy, write_toy_questions
from tests.support.bound_rows import bind


def _rates(found: Calibrated) -> Any:
    assert found.leak_rates is not None
    return found.leak_rates


def test_the_policy_rests_on_one_part_and_is_reported_on_the_other(toy: Path) -> None:
    found = calibrate_run(
        toy / "run", toy / "policy.json", Leak(0.1), delta=0.1, share=0.5, write_anyway=True
    )

    run = MeasuredRun.read(toy / "run")
    assert run.calibration is not None
    assert run.calibration.policy == found.policy == Policy.load(toy / "policy.json")
    fitted, tested = run.calibration.calibration_questions, run.calibration.test_questions
    assert not fitted & tested
    assert fitted | tested == set(run.questions)
    assert len(fitted) == len({record.question_id for record in found.certify}) == 30
    rows = [row for row in run.rows if row.question_id in tested and row.kind == "left_out"]
    kept = sum(
        found.policy.route(found.policy.relevance_calibrator.apply(row.raw_relevance or 0.0), None)
        is Route.ABSTAIN
        for row in rows
    )
    abstention = _rates(found).left_out_abstention
    assert (abstention.value, abstention.n) == (kept / 30, 30)


def test_by_default_all_questions_are_fitted_on_and_each_is_judged_by_the_others(toy: Path) -> None:
    found = calibrate_run(toy / "run", toy / "policy.json", Leak(0.1), delta=0.1, write_anyway=True)

    run = MeasuredRun.read(toy / "run")
    assert run.calibration is not None
    assert run.calibration.calibration_questions == set(run.questions)
    assert run.calibration.test_questions == set()
    assert run.calibration.reported_questions == set(run.questions)
    kept = sum(
        (threshold := run.calibration.thresholds[row.question_id]) is None
        or row.raw_relevance is None
        or row.raw_relevance < threshold
        for row in run.rows
        if row.kind == "left_out"
    )
    abstention = _rates(found).left_out_abstention
    assert (abstention.value, abstention.n) == (kept / 60, 60)
    summary = SignalsSummary.read(toy / "run").values
    assert summary["left_out"]["abstained"] == kept
    assert summary["left_out"]["tested"] == 60


def test_a_left_out_passage_that_was_retrieved_is_not_calibrated_on(toy: Path) -> None:
    rows = toy / "run" / "rows.jsonl"
    lines = rows.read_text(encoding="utf-8").splitlines(keepends=True)
    row = json.loads(lines[1])
    row["retrieved"][0] = row["question_id"]
    lines[1] = json.dumps(row) + "\n"
    rows.write_text("".join(lines), encoding="utf-8")
    bind(toy / "run")

    with pytest.raises(InputError, match=r"rows\.jsonl:2: passage .* although it was left out"):
        calibrate_run(toy / "run", toy / "policy.json", Leak(0.1), delta=0.1)


class _Tuned(LexicalScorer):
    """Says that it was tuned on some questions."""

    def tuned_on(self, question: str) -> bool:
        return "library" in question


def test_questions_that_the_scorer_was_tuned_on_do_not_calibrate_it(tmp_path: Path) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 40)
    run_toy(questions, tmp_path / "run", scorer=_Tuned())
    assert MeasuredRun.read(tmp_path / "run").manifest.tuned_on[:1] == ("0-ü",)

    with pytest.raises(InputError, match="the scorer was tuned on 5 of its 40 questions") as error:
        calibrate_run(tmp_path / "run", tmp_path / "policy.json", Leak(0.2), delta=0.1)

    assert "measure other questions" in error.value.hint
    assert not (tmp_path / "policy.json").exists()
    assert not (tmp_path / "run" / "calibrations.jsonl").exists()  # nothing was tested


COUNT = 40


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("echo")
    questions = folder / "kb.jsonl"
    write_toy_questions(questions, COUNT)
    settings = MeasureSettings(questions=questions, echo=True, top_k=3)
    instruments = Instruments(LexicalScorer(), ToyEncoder(embed))
    return run_suite(MEASURE, settings, folder / "run", [instruments]).folder


def test_the_question_stands_first_and_its_passage_is_left_out(measured: Path) -> None:
    run = MeasuredRun.read(measured)
    rows = {(row.question_id, row.kind): row for row in run.rows}
    assert len(rows) == 3 * COUNT
    for name, question in run.questions.items():
        echo, left_out = rows[name, CaseKind.ECHO], rows[name, CaseKind.LEFT_OUT]
        assert echo.retrieved == (f"{name}/echo", *left_out.retrieved[:-1])
        assert question.own_passage not in echo.retrieved
        assert echo.scores[1:] == left_out.scores[:-1]


def test_they_are_reported_and_nothing_else_changes(measured: Path, tmp_path: Path) -> None:
    before = SignalsSummary.read(measured).values
    echo = before["echo"]
    assert (echo["cases"], echo["tested"], echo["passed"]) == (COUNT, 0, None)
    assert (before["left_out"]["cases"], before["in_kb"]["cases"]) == (COUNT, COUNT)
    assert {record.case for record in CalibrationSet.of_run(measured).records} == {
        "in_kb",
        "left_out",
    }

    calibrate_run(measured, tmp_path / "policy.json", Leak(0.2), delta=0.2, write_anyway=True)

    summary = SignalsSummary.read(measured)
    passed, tested = summary.values["echo"]["passed"], summary.values["echo"]["tested"]
    assert passed is not None
    assert tested == COUNT
    rate = summary.to_dict()["echo"]["pass_rate"]
    assert (rate["value"], rate["n"]) == (passed / tested, COUNT)
    # The repeated question scores 0; one question passes by another passage beside it.
    rows = [row for row in MeasuredRun.read(measured).rows if row.kind is CaseKind.ECHO]
    assert [row.scores[0] for row in rows] == [0.0] * COUNT
    document = signals_document(SignalsSummary.read(measured))
    assert "Passes when a passage repeats the question" in str(document.sections)
