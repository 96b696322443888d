"""`knowgate label`: order, marking, storage, resuming, files, and what `calibrate` says of it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.offline_eval.cli.commands import Knowgate, read_lines, refused, write_lines
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


@pytest.mark.parametrize("wrong", ["", "x", "a 3", "a 0", "n 1", "a one", "a ²", "answered"])
def test_what_is_not_understood_is_asked_again(
    knowgate: Knowgate, run: Path, answers: Answers, wrong: str
) -> None:
    answers(wrong, "n", "q")
    outcome = knowgate("label", run)
    assert "answer with one of these letters" in outcome.out
    assert verdicts(run) == [("fee/left_out", "not_answered")]


def test_decided_cases_are_not_asked_again_unless_that_is_wanted(
    knowgate: Knowgate, run: Path, answers: Answers
) -> None:
    answers("a", "q")
    knowgate("label", run)
    answers("q")
    assert "case 1 of 2" in knowgate("label", run).out
    answers("n")
    assert "case 1 of 3" in knowgate("label", run, "--again").out
    assert verdicts(run) == [("fee/left_out", "answered"), ("fee/left_out", "not_answered")]


def test_the_end_of_the_input_and_an_interrupt_end_it_like_q(
    knowgate: Knowgate, run: Path, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers("a")
    assert knowgate("label", run).code == 0

    def interrupted(_prompt: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    outcome = knowgate("label", run)
    assert (outcome.code, outcome.err) == (0, "")
    assert "1 of 3 left-out questions reviewed" in outcome.out


def test_json_counts_the_verdicts_and_asks_nothing(
    knowgate: Knowgate, run: Path, answers: Answers
) -> None:
    answers("a", "u", "q")
    knowgate("label", run)
    assert json.loads(knowgate("label", run, "--json").out) == {
        "left_out": 3, "reviewed": 2, "answered": 1, "not_answered": 0, "unsure": 1, "open": 1,
    }  # fmt: skip


def test_verdicts_travel_through_a_file(knowgate: Knowgate, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    outcome = knowgate("label", run, "--export", path)
    assert outcome.out == f"3 left-out cases, 0 with a verdict → {path}\n"

    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("fee/left_out,", "fee/left_out,answered", 1), encoding="utf-8")
    outcome = knowgate("label", run, "--import", path)
    assert outcome.out.startswith(
        "1 new verdict stored; 0 stood there already; 2 rows without a verdict\n"
    )
    assert verdicts(run) == [("fee/left_out", "answered")]


def test_a_damaged_table_of_reviews_is_one_line_for_every_command(
    knowgate: Knowgate, run: Path, tmp_path: Path
) -> None:
    path = run / "reviews.jsonl"
    path.write_text('{"case_id": "nobody/left_out", "verdict": "answered"}\n', encoding="utf-8")
    for arguments in (
        ["label", run],
        ["calibrate", "--run", run, "--out", tmp_path / "policy.json"],
        ["report", run],
    ):
        refused(knowgate(*arguments), f"{path}:1: case 'nobody/left_out' is no left-out case")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--export", "a.csv", "--import", "b.csv"], "exactly one is needed"),
        (["--again", "--browser"], "exactly one is needed"),
        (["--json", "--browser"], "--json: does not go with --browser"),
        (["--export", "a.txt"], "neither CSV nor JSON lines"),
        (["--import", "nowhere.csv"], "no such file"),
    ],
)
def test_what_cannot_be_done_is_refused(
    knowgate: Knowgate, run: Path, arguments: list[str], words: str
) -> None:
    refused(knowgate("label", run, *arguments), words)


def test_control_characters_of_a_passage_do_not_reach_the_terminal(
    knowgate: Knowgate, run: Path, answers: Answers
) -> None:
    path = run / "passages.jsonl"
    path.write_text(path.read_text("utf-8").replace("Whoever", "\\u001b[2JWhoever"), "utf-8")
    answers("q")
    shown = knowgate("label", run).out
    assert "\x1b[2J" not in shown
    assert "[2JWhoever" in shown


def test_calibrate_says_what_was_reviewed_and_what_would_help(
    knowgate: Knowgate, workplace: Path
) -> None:
    run = workplace / "run"
    calibrate = ["calibrate", "--run", run, "--risk", "0.2", "--out", workplace / "p.json"]
    outcome = knowgate(*calibrate)
    assert "reviews: none of 60 left-out questions was reviewed" in outcome.out
    rows = [row for row in read_lines(run / "rows.jsonl") if row["kind"] == "left_out"]
    highest = max(rows, key=lambda row: row["raw_relevance"])
    path = write_lines(
        workplace / "said.jsonl", [{"case_id": highest["case_id"], "verdict": "answered"}]
    )
    assert knowgate("label", run, "--import", path).code == 0

    outcome = knowgate(*calibrate)

    assert "reviews: 1 of 60 left-out questions reviewed, 1 answered after all" in outcome.out
    assert "Of 60 left-out questions, 1 was found by review" in outcome.out
    figures = json.loads(knowgate(*calibrate, "--json").out)["reviews"]
    assert (figures["left_out"], figures["reviewed"], figures["answered"]) == (60, 1, 1)
    assert figures["further"] is not None
    # The report takes the reviews, too, and the table is no output of a calibration.
    assert knowgate("report", run).code == 0
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert report["reviews"]["answered"] == 1
    refused(knowgate(*calibrate[:-1], run / "reviews.jsonl"), "is a file that is read here")
