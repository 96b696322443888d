"""Whether what was taken out is really gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from knowgate.guard.errors import ModelFolderError
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.ookb import OokbSuite
from knowgate.offline_eval.systems.comparison import Comparison
from tests.offline_eval.suites.ookb.toy import write_toy_questions
from tests.offline_eval.systems.asked import reader, run

CHECK = "left_out_check.jsonl"


def questions_with_a_restatement(path: Path) -> Path:
    """Six toy questions, and one whose answer holds all of the first one's."""
    write_toy_questions(path, 6)
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    more = {"id": "again", "question": "And the library?", "answer": f"Yes. {first['answer']}"}
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(more, ensure_ascii=False) + "\n")
    return path


def test_an_answer_that_stands_elsewhere_is_noted_and_reported(tmp_path: Path) -> None:
    questions = questions_with_a_restatement(tmp_path / "kb.jsonl")
    out = tmp_path / "out"

    run(questions, out, Comparison(models={"reader": reader()}, retrievals=("direct",)))

    rows = [json.loads(line) for line in (out / CHECK).read_text("utf-8").splitlines()]
    assert ("0-ü", "again", "contains_answer") in {
        (row["question_id"], row["passage_id"], row["how"]) for row in rows
    }
    report = json.loads(write_report(out, formats=("json",)).json.read_text("utf-8"))
    assert [row["passage_id"] for row in report["left_out_check"] if row["question_id"] == "0-ü"]


def test_only_questions_that_are_asked_with_their_passage_out_are_checked(tmp_path: Path) -> None:
    questions = questions_with_a_restatement(tmp_path / "kb.jsonl")
    comparison = Comparison(models={"reader": reader()}, retrievals=("direct",))

    run(
        questions,
        tmp_path / "in_kb",
        comparison,
        settings=OokbSuite.settings(cases=(CaseKind.IN_KB,)),
    )
    run(questions, tmp_path / "few", comparison, settings=OokbSuite.settings(limit=1))

    assert not (tmp_path / "in_kb" / CHECK).exists()
    lines = (tmp_path / "few" / CHECK).read_text("utf-8").splitlines()
    assert {json.loads(line)["question_id"] for line in lines} == {"0-ü"}


def test_logged_replies_are_checked_too_and_no_answer_elsewhere_is_an_empty_file(
    tmp_path: Path,
) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 3)
    row = {"id": "0-ü", "response": "I do not know.", "context_ids": ["1-ü"]}
    (tmp_path / "log.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")

    run(questions, tmp_path / "out", Comparison(replay=[tmp_path / "log.jsonl"]))

    assert (tmp_path / "out" / CHECK).read_text("utf-8") == ""


def test_without_an_encoder_a_run_goes_unchecked(tmp_path: Path) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 3)

    def missing() -> Any:
        raise ModelFolderError("the model is not there")

    comparison = Comparison(models={"reader": reader()}, retrievals=("direct",))
    done = run(questions, tmp_path / "out", comparison, encoder=missing)

    assert done.totals.total == 6
    assert not (tmp_path / "out" / CHECK).exists()
