"""Help, exit codes, one line for each mistake, narrow terminals, and processes that are stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from knowgate.guard import Fingerprint
from knowgate.offline_eval.cli._app import COMMANDS
from knowgate.offline_eval.cli._console import print_table
from tests.offline_eval.cli.commands import Knowgate, refused, write_lines
from tests.support.commands import command
from tests.support.paths import ROOT


def test_the_first_screen_has_at_most_ten_commands(knowgate: Knowgate) -> None:
    found = knowgate().out

    named = [name for name in COMMANDS if re.search(rf"(?m)^\W*{name}  ", found)]
    assert {"init", "check", "serve"} <= set(named)
    assert len(named) <= 10
    assert "knowgate --help" in found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["apply", "--bogus"], "No such option"),
        (["apply"], "Missing option '--input'"),
        (["measure", "--out", "x"], "Missing option '--questions'"),
        (["eval", "python:tests.offline_eval.suites.test_own_suite:Needy"], "option '--most'"),
        (["measure", "--questions", "x", "--out", "y", "--top-k", "many"], "'--top-k'"),
        (["calibrate", "--run", "x", "--out", "y", "--risk", "lots"], "'--risk'"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_one_line(
    knowgate: Knowgate, arguments: list[str], words: str
) -> None:
    refused(knowgate(*arguments), words, "--help`")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--scorer", "oracle", "unknown scorer 'oracle' — one of: bi_encoder, "),
        ("--aggregator", "median", "unknown aggregator 'median' — one of: max"),
        ("--passage", "passage", "question '0-ü' has no field 'passage'"),
        ("--passage", "z", "--passage: Input should be 'answer', 'question_answer', 'passage' or"),
        ("--top-k", "0", "--top-k: Input should be greater than or equal to 1, not '0'"),
    ],
)
def test_an_unknown_part_is_one_line_and_nothing_is_written(
    knowgate: Knowgate, workplace: Path, option: str, value: str, words: str
) -> None:
    questions, out = workplace / "kb.jsonl", workplace / "new"

    refused(knowgate("measure", "--questions", questions, "--out", out, option, value), words)

    assert not out.exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("drift --policy p --input d --delta 2", "--delta: must be between 0 and 1, not 2"),
        ("kb build d --out o --filter keyword-threshold=2", "--filter: field 'keyword_threshold'"),
        ("tune scenarios --out o --training epochs=0", "--training: field 'epochs'"),
        ("apply --input i --output o --policy p --aggregator max", "--aggregator: does not go"),
        ("apply --input i --output o --policy p --abstention default", "--policy: does not go"),
        ("serve --uncalibrated --upstream-model m", "--upstream-model: belongs to the proxy"),
    ],
)
def test_an_option_that_cannot_be_taken_is_named(knowgate: Knowgate, line: str, words: str) -> None:
    refused(knowgate(*line.split()), words)


def test_the_folder_of_the_questions_is_never_taken_for_a_run_folder(
    knowgate: Knowgate, tmp_path: Path, workplace: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    content = (workplace / "kb.jsonl").read_bytes()
    (folder / "questions.jsonl").write_bytes(content)

    outcome = knowgate(
        "measure", "--questions", folder / "questions.jsonl", "--out", folder,
        "--scorer", "lexical",
    )  # fmt: skip

    refused(outcome, "holds no run (found 'questions.jsonl')")
    assert [p.name for p in folder.iterdir()] == ["questions.jsonl"]
    assert (folder / "questions.jsonl").read_bytes() == content


@pytest.mark.parametrize(
    ("package", "code", "ok", "hint"),
    [
        ("torch", 0, None, "pip install 'knowgate[hf]'"),
        ("tokenizers", 1, False, "pip install tokenizers"),
    ],
)
def test_doctor_tells_what_is_missing_from_what_is_not_needed(
    knowgate: Knowgate,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    code: int,
    ok: bool | None,
    hint: str,
) -> None:
    def version(name: str) -> str:
        if name in (package, "onnxruntime-gpu"):
            raise metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr(metadata, "version", version)
    outcome = knowgate("doctor", "--json")

    finding = next(one for one in json.loads(outcome.out) if one["what"] == package)
    assert (outcome.code, finding["ok"]) == (code, ok)
    assert hint in finding["detail"]


def own_scorer() -> SimpleNamespace:
    """A scorer whose error is none of ours."""
    return SimpleNamespace(fingerprint=Fingerprint(kind="own"), score_pairs=max, score=max)


def test_doctor_shows_a_scorer_that_breaks_in_its_table(knowgate: Knowgate) -> None:
    outcome = knowgate("doctor", "--json", "--scorer", f"python:{__name__}:own_scorer")

    finding = json.loads(outcome.out)[-1]
    assert (outcome.code, finding["ok"], finding["detail"][:9]) == (1, False, "TypeError")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 40 columns."""
    monkeypatch.setenv("COLUMNS", "40")


@pytest.mark.usefixtures("narrow")
def test_no_figure_of_a_table_is_cut_at_40_columns(
    knowgate: Knowgate, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = ("external_only with a long name", "0.123456789", "0.1 to 0.2", "1,234,567")
    print_table(("measure", "value", "interval", "n"), [cells])
    printed = " ".join(capsys.readouterr().out.split())
    assert all(cell in printed for cell in cells)
    assert "…" not in printed

    listed = knowgate("models").out
    assert "smollm2" in listed
    assert "…" not in listed


@pytest.mark.slow
def test_an_output_that_cannot_show_every_sign_does_not_end_the_command(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "knowgate", "report", str(tmp_path / "nöwhere")]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}

    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, check=False)

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") == 1
    assert b"n?where" in done.stderr


@pytest.mark.slow
def test_a_stopped_command_leaves_nothing_half_written(tmp_path: Path) -> None:
    lines = [{"question": "Pool?", "passages": ["pool " * 2000] * 5}] * 300
    write_lines(tmp_path / "in.jsonl", lines)
    output = tmp_path / "out"
    output.mkdir()
    arguments = ("--input", tmp_path / "in.jsonl", "--output", output / "scores.jsonl")
    with command("apply", "--scorer", "lexical", *arguments) as process:
        process.wait_until(lambda: any(output.iterdir()))

        process.signal(signal.SIGTERM)

        assert process.wait() == 128 + signal.SIGTERM
    assert list(output.iterdir()) == []
