"""`knowgate kb filter`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import knowgate.offline_eval.cli._kb_filter
from knowgate.offline_eval.data import QuestionRecord
from tests.offline_eval.cli.commands import Knowgate, read_lines, refused, write_lines

_COMMAND = knowgate.offline_eval.cli._kb_filter.filter_questions


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Seven questions: a copy with another answer, near words, near meaning."""
    texts = [
        "What is the penalty for speeding in a tunnel?",
        "what is the penalty, for speeding in a tunnel",
        "What is the penalty for speeding in one tunnel?",
        "How many days of annual leave does a new employee get?",
        "How much annual leave is given to new employees?",
        "Who runs the museum of modern art?",
        "Where can I buy a ticket for the ferry?",
    ]
    lines = [
        {"id": f"q-{at}", "question": text, "answer": f"Answer {at}.", "topic": "t"}
        for at, text in enumerate(texts)
    ]
    return write_lines(tmp_path / "kb.jsonl", lines)


@pytest.mark.slow
def test_what_is_kept_and_what_is_dropped_is_written_and_told(
    knowgate: Knowgate, questions: Path, tmp_path: Path
) -> None:
    done = knowgate("kb", "filter", questions, "--out", tmp_path / "kept.jsonl")

    assert done.code == 0, done
    kept = read_lines(tmp_path / "kept.jsonl")
    assert [line["id"] for line in kept] == ["q-0", "q-3", "q-5", "q-6"]
    assert all(line["topic"] == "t" for line in kept)
    dropped = read_lines(tmp_path / "kept.dropped.jsonl")
    assert [(one["question_id"], one["reason"], one["nearest"]) for one in dropped] == [
        ("q-1", "duplicate", "q-0"),
        ("q-2", "keywords", "q-0"),
        ("q-4", "meaning", "q-3"),
    ]
    assert done.out.splitlines()[0].startswith("4 of 7 questions kept → ")
    assert "1 occur twice" in done.out
    assert "the knowledge base may contradict itself" in done.out
    assert done.err == ""


def test_methods_and_thresholds_are_the_users(
    knowgate: Knowgate, questions: Path, tmp_path: Path
) -> None:
    done = knowgate(
        *("kb", "filter", questions, "--out", tmp_path / "kept.jsonl"),
        *("--dropped", tmp_path / "gone.jsonl", "--keyword", "original", "--semantic", "off"),
        *("--keyword-threshold", "0.5", "--near-duplicates", "0"),
    )

    assert done.code == 0, done
    gone = read_lines(tmp_path / "gone.jsonl")
    assert {one["reason"] for one in gone} == {"duplicate", "keywords"}
    assert len(QuestionRecord.read(tmp_path / "kept.jsonl")) + len(gone) == 7
    assert not (tmp_path / "kept.dropped.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--keyword-threshold", "2"), ("keyword_threshold", "from 0 to 1")),
        (("--semantic-threshold", "0"), ("semantic_threshold", "above 0")),
        (("--encoder", "no/such/model"), ("no/such/model",)),
        (("--keyword", "best"), ("best",)),
    ],
)
def test_bad_options_write_nothing(
    knowgate: Knowgate,
    questions: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    refused(
        knowgate("kb", "filter", questions, "--out", tmp_path / "kept.jsonl", *arguments), *words
    )

    assert [path.name for path in tmp_path.iterdir()] == ["kb.jsonl"]


def test_a_broken_question_is_named_before_a_model_is_loaded(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    path = tmp_path / "kb.jsonl"
    path.write_text('{"question": "a", "answer": "b"}\n{"question": "c"}\n', encoding="utf-8")

    done = knowgate("kb", "filter", path, "--out", tmp_path / "kept", "--encoder", "no/such")

    refused(done, "kb.jsonl:2", "field 'answer' is missing")


def test_a_document_becomes_lines_where_the_name_promises_lines(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    document, out = tmp_path / "kb.json", tmp_path / "kept.jsonl"
    questions = [
        {"question": "When does the library open?", "answer": "At nine."},
        {"question": "What does a parking permit cost?", "answer": "40 euros a year."},
        {"question": "Who collects garden waste?", "answer": "The city, on Mondays."},
    ]
    document.write_text(json.dumps({"questions": questions}), encoding="utf-8")
    assert knowgate("kb", "filter", document, "--out", out, "--semantic", "off").code == 0
    assert [record.question for record in QuestionRecord.read(out)] == [
        one["question"] for one in questions
    ]
