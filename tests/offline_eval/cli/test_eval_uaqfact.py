"""`knowgate eval uaqfact`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from knowgate.offline_eval.data.graph.layout import write_layout
from tests.offline_eval.cli.commands import Knowgate, refused
from tests.offline_eval.data.graph.layout_questions import small_set
from tests.offline_eval.suites.uaqfact.runs import read_uaqfact_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_layout(small_set(), tmp_path / "set")


def test_a_dry_run_counts_and_asks_nothing(knowgate: Knowgate, shared_data: Path) -> None:
    arguments = ("eval", "uaqfact", "--data", shared_data / "uaqfact", "--dry-run")
    assert "total en: 360" in knowgate(*arguments).out
    found = json.loads(knowgate(*arguments, "--json").out)
    assert found["total"] == {"en": 360, "zh": 360}
    assert found["counts"]["task1"]["zh"]["time"] == {"ua": 60, "ab": 60}
    assert found["counts"]["task2"]["en"]["inter"] == 120


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "4"], "no task '4'"),
        (["--forms", "prose"], "no form 'prose'"),
        (["--lang", "zh", "--out", "x"], "'zh'"),
        (["--lang", ","], "names no language"),
        (["--guard", "p.json", "--tasks", "1", "--out", "x"], "--tasks"),
        (["--scorer", "lexical", "--out", "x"], "--guard"),
        ([], "--out"),
        (["--model", "replay", "--out", "x"], "--replies"),
    ],
)
def test_bad_input_is_one_line(
    knowgate: Knowgate, folder: Path, arguments: list[str], message: str
) -> None:
    refused(knowgate("eval", "uaqfact", "--data", str(folder), *arguments), message)


def test_a_partial_folder_is_one_line(knowgate: Knowgate, folder: Path) -> None:
    shutil.rmtree(folder / "task3")
    refused(knowgate("eval", "uaqfact", "--data", str(folder), "--dry-run"), "task3")


def test_logged_replies_are_run_and_reported(
    knowgate: Knowgate, folder: Path, tmp_path: Path
) -> None:
    log, run = tmp_path / "log.jsonl", tmp_path / "run"
    lines = [
        {"qid": "inter_ua_1", "response": "没有合适的答案"},
        {"qid": "inter_ab_1", "response": "Ann Li"},
        {"qid": "fact_inter", "task": 2, "response": "(B)"},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ["--data", str(folder), "--model", "replay", "--replies", str(log)]
    done = knowgate("eval", "uaqfact", *arguments, "--tasks", "1,2", "--out", str(run))
    assert (done.code, "6 of 9 rows failed" in done.err) == (1, True)
    assert len(read_uaqfact_run(run).rows) == 9
    assert knowgate("report", str(run)).code == 0
    found = json.loads((run / "report.json").read_text())
    assert (found["r_ua"]["value"], found["accuracy"]["value"]) == (1.0, 1.0)
    assert found["failures"] == {"LanguageModelError": 6}


def test_the_built_in_guard_looks_at_the_premise(
    knowgate: Knowgate, folder: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    arguments = ["--data", str(folder), "--tasks", "3", "--guard", "premise", "--out", str(run)]
    assert knowgate("eval", "uaqfact", *arguments).code == 0
    found = read_uaqfact_run(run)
    assert found.manifest.systems == ("model", "premise")
    declined = {row.key for row in found.rows if row.reason == "false_premise"}
    # Of two halves with different answers, and of two options that are not the prizes.
    assert "en/dilemma/ua/dilemma_ua_1" in declined
    assert not [key for key in declined if "/ab/" in key and "/dilemma/" in key]
