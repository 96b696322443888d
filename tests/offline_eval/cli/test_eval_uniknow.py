"""`knowgate eval uniknow`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.offline_eval.cli.commands import Knowgate, write_lines

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
