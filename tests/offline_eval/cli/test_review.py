"""`knowgate label`: order, marking, storage, resuming, files, and what `calibrate` says of it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.offline_eval.cli.commands import Knowgate, read_lines
from tests.offline_eval.judging.labelling.reviewing.small_run import write_small_run

Answers = Callable[..., None]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_small_run(tmp_path / "run")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    def give(*lines: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return give


def verdicts(run: Path) -> list[tuple[str, str]]:
    rows = read_lines(run / "reviews.jsonl") if (run / "reviews.jsonl").exists() else []
    return [(row["case_id"], row["verdict"]) for row in rows]


def test_the_marked_case_comes_first_with_everything_that_is_needed(
    knowgate: Knowgate, run: Path, answers: Answers
) -> None:
    answers("q")
    outcome = knowgate("label", run)

    assert outcome.code == 0
    assert "case 1 of 3 — probably answered after all, by passage 1" in outcome.out
    for words in (
        "question: What do I pay for an overdue book?",
        "expected: 20 cents a day",
        "relevance: raw 0.200",
        "passage 1 · news#1 · news.html (probably answers)",
        "Whoever brings a book back late is charged 20 cents for each day.",
        "passage 2 · kids#1 · kids.html",
        "0 of 3 left-out questions reviewed",
    ):
        assert words in outcome.out
    assert verdicts(run) == []


def test_answers_are_stored_in_order_and_named_passages_with_them(
    knowgate: Knowgate, run: Path, answers: Answers
) -> None:
    answers("A 1", "n", "u")
    outcome = knowgate("label", run)

    assert verdicts(run) == [
        ("fee/left_out", "answered"),
        ("tour/left_out", "not_answered"),
        ("dogs/left_out", "unsure"),
    ]
    assert read_lines(run / "reviews.jsonl")[0]["passage"] == "news#1"
    assert "3 of 3 left-out questions reviewed: 1 answered after all, 1 not, 1 unsure" in (
        outcome.out
    )
    assert f"next: knowgate calibrate --run {run} --risk 0.1 --out policy.json" in outcome.out


def test_a_spreadsheet_is_filled_in_and_stored(
    knowgate: Knowgate, run: Path, tmp_path: Path
) -> None:
    path = tmp_path / "reviews.csv"
    assert "3 left-out cases, 0 with a verdict" in knowgate("label", run, "--export", path).out
    lines = path.read_text("utf-8").replace("tour/left_out,", "tour/left_out,Not answered")
    path.write_text(lines, "utf-8")

    outcome = knowgate("label", run, "--import", path)

    assert "1 new verdict stored; 0 stood there already; 2 rows without a verdict" in outcome.out
    assert "1 of 3 left-out questions reviewed" in outcome.out
    assert verdicts(run) == [("tour/left_out", "not_answered")]


def test_control_characters_of_a_passage_do_not_reach_the_terminal(
    knowgate: Knowgate, run: Path, answers: Answers
) -> None:
    path = run / "passages.jsonl"
    path.write_text(path.read_text("utf-8").replace("Whoever", "\\u001b[2JWhoever"), "utf-8")
    answers("q")
    shown = knowgate("label", run).out
    assert "\x1b[2J" not in shown
    assert "[2JWhoever" in shown
