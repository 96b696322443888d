from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgate.calibration import CalibrationRecord
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.measured_run import MeasuredRun
from tests.offline_eval.cli.commands import write_lines
from tests.offline_eval.policies.measured import ESTIMATOR, SCORER
from tests.offline_eval.suites.ookb.toy import run_toy, write_toy_questions


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    return run_toy(write_toy_questions(folder / "kb.jsonl", 30), folder / "run")


def test_an_ookb_run_gives_two_cases_per_question(run: Path) -> None:
    found = CalibrationSet.of_run(run)

    rows = MeasuredRun.read(run).rows
    assert (found.questions, len(found.records)) == (30, 60)
    assert {case.case for case in found.records} == {"in_kb", "left_out"}
    for case, row in zip(found.records, rows, strict=True):
        assert (case.relevance, case.question_id) == (row.raw_relevance, row.question_id)
        assert (case.confidence, case.closed_book_right) == (None, None)
        if case.case == "left_out":
            assert case.context_right is False
        else:
            assert case.context_right is not row.retrieval_miss


@pytest.fixture
def uniknow(tmp_path: Path) -> Path:
    """What `uniknow_signals` reads of a run: its manifest, its plan, and what was measured."""
    manifest = {
        "schema_version": 1,
        "suite": "uniknow",
        "created_by": "knowgate",
        "settings": {
            "dataset": "microworld",
            "scorer": SCORER.model_dump(),
            "estimator": ESTIMATOR.model_dump(),
            "aggregator": "noisy_or",
        },
        "methods": ["naive", "guard_naive"],
    }
    plan = {
        "schema_version": 1, "training_cases": 1, "evaluation_cases": 2, "rows": 4,
        "grouped": True, "knowledge": {"known": 1},
    }  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (tmp_path / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    signal = {
        "case_id": "m/1/original", "dataset": "m", "question_id": "1", "group": "Ada",
        "part": "training", "kind": "original", "holds_answer": True, "raw_relevance": 3.5,
        "raw_confidence": 0.7, "context_right": True, "closed_book_right": False,
        "closed_book": "x", "context_reply": "y", "scores": [3.5], "error": None,
    }  # fmt: skip
    failed = {"raw_relevance": None, "context_right": None, "error": "SignalError: relevance"}
    signals = [
        signal,
        signal | {"case_id": "m/2/original", "question_id": "2", "group": "", "part": "evaluation"},
        signal | {"case_id": "m/2/random", "question_id": "2", "group": "", "kind": "random"}
        | {"part": "evaluation"} | failed,
    ]  # fmt: skip
    write_lines(tmp_path / "signals.jsonl", signals)
    case = {
        "question": "Q", "answers": ["A"], "context_kind": "original", "passages": [],
        "context_answers": [], "untrue_answers": [], "knowledge": "known", "samples_right": 1,
        "samples_drawn": 1,
    }  # fmt: skip
    named = ("case_id", "dataset", "question_id", "group", "part")
    cases = [case | {name: one[name] for name in named} for one in signals]
    write_lines(tmp_path / "cases.jsonl", cases)
    return tmp_path


def test_a_uniknow_run_gives_what_its_guard_measured(uniknow: Path) -> None:
    found = CalibrationSet.of_run(uniknow)

    assert found.records == (
        CalibrationRecord("m/1", 3.5, 0.7, True, False, group="m/Ada", case="original"),
        CalibrationRecord("m/2", 3.5, 0.7, True, False, case="original"),
        CalibrationRecord("m/2", None, 0.7, None, False, case="random"),
    )
    assert (found.scorer, found.estimator) == (SCORER, ESTIMATOR)
    assert found.aggregator == "noisy_or"
    assert "the data set microworld" in found.population
    assert "(original, random)" in found.population
