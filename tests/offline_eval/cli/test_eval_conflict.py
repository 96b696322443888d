"""`knowgate eval conflict` and `knowgate eval judge-bias`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from knowgate.offline_eval.suites.judge_bias.artefact import JudgeBias
from tests.offline_eval.cli.commands import Knowgate, write_lines
from tests.offline_eval.suites.conflict.questions import read_conflict_run


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return write_lines(
        tmp_path / "set.jsonl",
        [
            {
                "id": str(number),
                "question": f"Who runs town {number}?",
                "answers": [
                    {"text": f"{name} {number}", "evidence": f"{name} {number} runs it."}
                    for name in ("Ann", "Bo")
                ],
                "belief": f"Ann {number}",
            }
            for number in range(4)
        ],
    )


def test_a_dry_run_counts_and_asks_nothing(knowgate: Knowgate, shared_data: Path) -> None:
    data = str(shared_data / "conflictqa")
    said = knowgate("eval", "conflict", "--data", data, "--dry-run").out
    assert re.search(r"questions +2473", said)
    assert "two answers are the same" in said


def test_logged_replies_are_run(knowgate: Knowgate, questions: Path, tmp_path: Path) -> None:
    lines = [
        {
            "key": f"set/{number}",
            "task": "CK",
            "evidence": kind,
            "response": f"It is {name} {number}.",
        }
        for number in range(4)
        for kind, name in (("NC", "Ann"), ("HPC", "Ann"))
    ]
    log, run = write_lines(tmp_path / "log.jsonl", lines), tmp_path / "run"
    arguments = ["--data", questions, "--model", "replay", "--replies", log, "--tasks", "CK"]
    found = knowgate("eval", "conflict", *arguments, "--evidence", "NC,HPC", "--out", run)
    assert found.code == 0, found.err
    assert "4 questions, 4 with a belief" in found.out
    told = read_conflict_run(run)
    assert [row.correct for row in told.rows if row.evidence == "NC"] == [True] * 4
    assert [row.correct for row in told.rows if row.evidence == "HPC"] == [False] * 4
    assert json.loads((run / "manifest.json").read_text())["settings"]["beliefs"] == "given"


def test_a_judges_bias_is_measured(knowgate: Knowgate, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "judge_bias.json"
    arguments = ["--judge", "llm:embedded", "--data", questions, "--beliefs", "given"]
    found = knowgate("eval", "judge-bias", *arguments, "--out", out)
    assert found.code == 0, found.err
    assert "4 questions, 16 verdicts" in found.out
    assert "warning: The judge llm:embedded" in found.out
    assert JudgeBias.read(out).cases == 16


MODELS = """
from knowgate.guard.testing import ScriptedLanguageModel

class Model(ScriptedLanguageModel):
    fingerprint = "scripted"

model = Model({"answer: Ann": "yes", "replied: Ann": "yes", "A: Ann": "yes",
               "Options": "Answer: A"}, default="no")
editor = Model({"<answer>": "<answer>a teapot</answer><passage>A teapot runs it.</passage>",
                "<rationale>": "<rationale>It is so.</rationale>"})
lenient = Model({"<yields>": "<yields>yes</yields>", "teapot": "<plausibility>1</plausibility>"},
                default="<plausibility>5</plausibility>")
strict = Model({"<yields>": "<yields>yes</yields>", "teapot": "<plausibility>2</plausibility>"},
               default="<plausibility>3</plausibility>")
"""


def test_an_editor_writes_and_two_judges_check(
    knowgate: Knowgate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "models_of_this_test.py").write_text(MODELS)
    lines = [
        {
            "question_ID": number,
            "question": f"Who runs town {number}?",
            "context1": "Ann runs it.",
            "answer1": "Ann",
            "context2": "Bo runs it.",
            "answer2": "Bo",
        }
        for number in range(4)
    ]
    wiki = write_lines(tmp_path / "wiki.jsonl", lines)
    names = {name: f"python:models_of_this_test:{name}" for name in ("model", "editor")}
    judges = [f"python:models_of_this_test:{name}" for name in ("lenient", "strict")]
    found = knowgate(
        *("eval", "conflict", "--data", wiki, "--out", "run", "--model", names["model"]),
        *("--editor", names["editor"], "--judge", judges[0], "--judge", judges[1]),
    )
    assert found.code == 0, found.err
    run = read_conflict_run(Path("run"))
    assert run.manifest.settings["beliefs"] == "asked"
    assert len(run.instances) == 4
    by_kind = {row.kind.value: row for row in run.evidence if row.key == "wiki/0"}
    assert all(row.accepted for row in by_kind.values())
    assert by_kind["LPC"].answer == "a teapot"
    assert by_kind["LPC"].plausibility == 0.125
    assert by_kind["HPC"].plausibility == 0.75
    assert by_kind["HPCE"].passage == "Bo runs it.\nIt is so."
