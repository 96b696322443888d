"""Help, exit codes, and one line for each mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from knowgate import __version__
from knowgate.offline_eval.cli import app
from knowgate.offline_eval.cli._app import COMMANDS, summary_of
from tests.offline_eval.cli.commands import Knowgate, every_command, refused

_COMMANDS = [" ".join(words) for words, _ in every_command()]


@pytest.mark.parametrize("command", _COMMANDS)
def test_every_command_explains_itself_with_an_example(
    knowgate: Knowgate, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    found = knowgate(*command.split(), "--help")

    assert found.code == 0
    assert f"knowgate {command}" in " ".join(found.out.split("Example")[-1].split())
    assert "Example" in found.out


def test_the_help_has_every_command_in_its_group_with_its_summary(
    knowgate: Knowgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    found = knowgate("--help").out

    groups = ("serve", "calibrate", "evaluate", "watch", "tools")
    places = [found.index(f"─ {group} ─") for group in groups]
    assert places == sorted(places)
    root: Any = typer.main.get_command(app)
    context = typer.Context(root, info_name="knowgate")
    for name, entry in COMMANDS.items():
        own = str(root.get_command(context, name).help).partition("\n\n")[0]
        assert " ".join(own.split()) == " ".join(summary_of(name).split())
        assert entry.panel in groups
    assert root.get_command(context, "evaluate") is None


def test_the_first_screen_has_at_most_ten_commands(knowgate: Knowgate) -> None:
    found = knowgate().out

    named = [name for name in COMMANDS if re.search(rf"(?m)^\W*{name}  ", found)]
    assert {"init", "check", "serve"} <= set(named)
    assert len(named) <= 10
    assert "knowgate --help" in found


def test_the_version_is_printed(knowgate: Knowgate) -> None:
    assert knowgate("--version").out == f"knowgate {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["eval"]])
def test_without_a_command_the_help_is_shown(knowgate: Knowgate, arguments: list[str]) -> None:
    outcome = knowgate(*arguments)

    assert outcome.code == 2
    assert "Usage: knowgate" in outcome.out + outcome.err
    assert "error" not in outcome.err
    assert "--help" in outcome.out + outcome.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["apply", "--bogus"], "No such option"),
        (["apply"], "Missing option '--input'"),
        (["measure", "--out", "x"], "Missing option '--questions'"),
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
        ("--passage", "z", "--passage: there is no 'z' — answer, question_answer, passage"),
        ("--top-k", "0", "--top-k: Input should be greater than or equal to 1, not '0'"),
    ],
)
def test_an_unknown_part_is_one_line_and_nothing_is_written(
    knowgate: Knowgate, workplace: Path, option: str, value: str, words: str
) -> None:
    questions, out = workplace / "kb.jsonl", workplace / "new"

    refused(knowgate("measure", "--questions", questions, "--out", out, option, value), words)

    assert not out.exists()


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


@pytest.mark.slow
def test_a_run_is_gone_on_with_only_under_the_same_settings(
    knowgate: Knowgate, workplace: Path
) -> None:
    arguments = ["measure", "--questions", workplace / "kb.jsonl", "--out", workplace / "run"]

    refused(knowgate(*arguments, "--scorer", "lexical", "--top-k", "4"), "settings.top_k differs")
    assert knowgate(*arguments, "--scorer", "lexical").code == 0


def test_results_go_to_standard_output_and_no_bar_is_drawn(
    knowgate: Knowgate, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Continuous integration often sets it; standard error is still no terminal.
    monkeypatch.setenv("FORCE_COLOR", "1")

    outcome = knowgate(
        "measure", "--questions", workplace / "kb.jsonl", "--out", workplace / "run",
        "--scorer", "lexical",
    )  # fmt: skip

    assert outcome.code == 0
    assert outcome.err == ""
    assert "next: knowgate calibrate" in outcome.out


def test_calibrate_without_a_threshold_is_exit_code_3_with_what_is_missing(
    knowgate: Knowgate, workplace: Path
) -> None:
    out = workplace / "new.json"

    outcome = knowgate("calibrate", "--run", workplace / "run", "--risk", "0.01", "--out", out)

    assert outcome.code == 3
    assert "thresholds: none" in outcome.out
    assert "always abstains" in outcome.out
    # The second calibration of this run, which has an eighth of δ.
    assert "attempt 2 on this data" in outcome.err
    assert "takes questions on 437 different passages" in outcome.err
    assert "  next: --risk 0.0" in outcome.err
    assert not out.exists()

    again = knowgate(
        "calibrate", "--run", workplace / "run", "--risk", "0.01", "--out", out, "--write-anyway"
    )
    assert again.code == 0
    assert json.loads(out.read_text(encoding="utf-8"))["relevance_threshold"] is None


@pytest.mark.parametrize("place", ["a folder", "under a file", "the rows"])
def test_a_policy_that_cannot_be_written_is_one_line(
    knowgate: Knowgate, workplace: Path, place: str
) -> None:
    out = {
        "a folder": workplace / "run",
        "under a file": workplace / "kb.jsonl" / "policy.json",
        "the rows": workplace / "run" / "rows.jsonl",
    }[place]
    before = (workplace / "run" / "rows.jsonl").read_bytes()

    outcome = knowgate("calibrate", "--run", workplace / "run", "--risk", "0.2", "--out", out)

    refused(outcome, str(out))
    assert (workplace / "run" / "rows.jsonl").read_bytes() == before


def test_a_run_that_is_not_there_or_not_finished_is_one_line(
    knowgate: Knowgate, workplace: Path
) -> None:
    out = workplace / "new.json"
    refused(knowgate("calibrate", "--run", workplace / "nowhere", "--out", out), "no run")
    (workplace / "run" / "rows.jsonl").write_bytes(b'{"case_id"')
    refused(knowgate("calibrate", "--run", workplace / "run", "--out", out), "not finished (0 of 1")
    path = workplace / "run" / "manifest.json"
    path.write_text('{"schema_version": 7}', encoding="utf-8")
    refused(knowgate("calibrate", "--run", workplace / "run", "--out", out), "schema 7 is newer")


@pytest.mark.slow
def test_doctor_finds_everything_and_says_so_as_json(knowgate: Knowgate) -> None:
    outcome = knowgate("doctor", "--json")

    findings = {finding["what"]: finding for finding in json.loads(outcome.out)}
    assert outcome.code == 0
    assert all(finding["ok"] for finding in findings.values())
    assert findings["knowgate"]["detail"] == __version__
    assert {"python", "torch", "device", "embedded weights", "bi_encoder", "lexical"} <= set(
        findings
    )


def test_doctor_lists_scorers_without_loading_any(knowgate: Knowgate) -> None:
    listed = json.loads(knowgate("doctor", "--scorers", "--json").out)
    assert {"lexical", "sufficiency"} <= set(listed["own"])
    assert len(listed["presets"]) == 9
    reader = listed["presets"]["hf:tinyroberta-squad2"]
    assert (reader["licence"], reader["millions"]) == ("CC-BY-4.0", 82)
    assert "no answer" in reader["means"]
    shown = knowgate("doctor", "--scorers").out
    assert "hf:qnli-electra-base" in shown
    assert "OWNER/NAME" in shown
    assert "judge:MODEL" in shown
    assert listed["prefixes"] == ["hf:", "judge:", "metadata:"]


@pytest.mark.slow
def test_doctor_tries_the_scorers_that_are_named(
    knowgate: Knowgate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_weights", "_device"):
        monkeypatch.setattr(f"knowgate.offline_eval.cli._doctor.{name}", lambda: "not looked at")
    outcome = knowgate(
        "doctor", "--json", "--scorer", "judge:embedded", "--scorer", "judge:nothing",
        "--scorer", "hf:nothing",
    )  # fmt: skip
    assert outcome.code == 1
    found = {one["what"]: (one["ok"], one["detail"]) for one in json.loads(outcome.out)}
    for name, words in {
        "judge:embedded": "does not fit the model",
        "judge:nothing": "there is no such model",
        "hf:nothing": "neither a model folder nor a hub id",
    }.items():
        assert not found[name][0]
        assert words in found[name][1]
        assert "\n" not in found[name][1]
