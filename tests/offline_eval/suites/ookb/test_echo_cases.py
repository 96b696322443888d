"""Cases in which a passage repeats the question: measured, reported, never calibrated on."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.calibration.risk import Leak
from knowgate.guard.signals.relevance import LexicalScorer
from knowgate.offline_eval.policies import calibrate_run
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.ookb import MEASURE
from knowgate.offline_eval.suites.ookb._settings import MeasureSettings
from knowgate.offline_eval.suites.ookb._signals_report import signals_document
from knowgate.offline_eval.suites.ookb._signals_summary import SignalsSummary
from knowgate.offline_eval.suites.ookb.instruments import Instruments
from tests.offline_eval.suites.ookb.toy import ToyEncoder, embed, write_toy_questions

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
    before = SignalsSummary.read(measured)
    assert before.echo is not None
    assert (before.echo.cases, before.echo.tested, before.echo.passed) == (COUNT, 0, None)
    assert (before.left_out.cases, before.in_kb.cases) == (COUNT, COUNT)
    assert {record.case for record in CalibrationSet.of_run(measured).records} == {
        "in_kb",
        "left_out",
    }

    found = calibrate_run(
        measured, tmp_path / "policy.json", Leak(0.2), delta=0.2, write_anyway=True
    )

    summary = SignalsSummary.read(measured)
    assert summary.echo is not None
    passed, tested = summary.echo.passed, summary.echo.tested
    assert passed is not None
    assert tested == COUNT
    rate = summary.to_dict()["echo"]["pass_rate"]
    assert (rate["value"], rate["n"]) == (passed / tested, COUNT)
    # The repeated question scores 0; one question passes by another passage beside it.
    rows = [row for row in MeasuredRun.read(measured).rows if row.kind is CaseKind.ECHO]
    assert [row.scores[0] for row in rows] == [0.0] * COUNT
    assert (len(found.measured.echoes), found.echoes_passing()) == (COUNT, 1)
    document = signals_document(SignalsSummary.read(measured))
    assert "Passes when a passage repeats the question" in str(document.sections)
