"""`knowgate eval uniknow`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.offline_eval.cli.commands import Knowgate, refused, write_lines

NAMES = ["Ash", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Larch", "Maple", "Oak", "Pine"]


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Ten questions, each with a text of its own."""
    return write_lines(
        tmp_path / "questions.jsonl",
        [
            {
                "id": f"q{n}",
                "question": f"Which tree stands in yard {n}?",
                "answers": [f"{name} Tree"],
                "context": f"Yard {n} is old. A {name} Tree stands in yard {n} beside the well.",
            }
            for n, name in enumerate(NAMES)
        ],
    )


@pytest.mark.slow
def test_what_is_left_out_and_what_the_guards_promise_are_said(
    knowgate: Knowgate, questions: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    command = ("eval", "uniknow", "--data", questions, "--knowledge", kept, "--scorer", "lexical")

    found = knowgate(*command, "--methods", "all", "--limit", "4", "--out", tmp_path / "run")

    assert found.code == 0, found.err
    words = " ".join(found.out.split())
    assert "left out: kaft (training needs questions that the model knows and" in words
    assert "the guards guarantee: no thresholds were certified" in words
    assert len(kept.read_text("utf-8").splitlines()) == 4


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--methods", "naive,magic", "unknown method 'magic'"),
        ("--set", "risk=1.5", "risk: must be between 0 and 1"),
        ("--data", "nowhere.jsonl", "no such file"),
        ("--scorer", "magic", "unknown scorer 'magic'"),
        ("--knowledge", __file__, "the row is damaged"),
    ],
)
def test_a_bad_option_is_refused_in_one_line_and_nothing_is_written(
    option: str, value: str, words: str, knowgate: Knowgate, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    given = {"--data": str(questions), "--methods": "guard_naive", option: value}

    options = [word for pair in given.items() for word in pair]

    refused(knowgate("eval", "uniknow", "--out", out, *options), words)

    assert not out.exists()


def test_a_dry_run_counts_cases_and_writes_nothing(knowgate: Knowgate, questions: Path) -> None:
    found = knowgate(
        "eval", "uniknow", "--data", questions, "--methods", "naive,cad", "--dry-run", "--json"
    )

    assert found.code == 0, found.err
    assert json.loads(found.out) == {"cases": {"naive": 40, "cad": 40}}


def test_a_file_of_questions_runs_on_the_embedded_model_and_is_resumed(
    knowgate: Knowgate, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = ("eval", "uniknow", "--data", questions, "--methods", "naive,cad", "--out", out)

    first = knowgate(*command)
    rows = (out / "rows.jsonl").read_bytes()
    (out / "rows.jsonl").write_bytes(rows[: len(rows) // 2])
    second = knowgate(*command)

    assert first.code == second.code == 0, first.err + second.err
    assert f"next: knowgate report {out}" in first.out
    assert (out / "rows.jsonl").read_bytes() == rows
    assert json.loads((out / "manifest.json").read_text())["methods"] == ["naive", "cad"]
