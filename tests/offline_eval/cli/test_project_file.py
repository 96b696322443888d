"""`knowgate.toml`, `knowgate init` and `knowgate check`."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from knowgate.offline_eval.cli._app import COMMANDS
from knowgate.offline_eval.cli._project_file import ProjectFile
from knowgate.offline_eval.systems.guards import GuardChoice
from tests.offline_eval.cli.commands import Knowgate, refused
from tests.offline_eval.suites.ookb.toy import write_toy_questions

PLAN = ("calibrate", "--dry-run")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with 60 questions and what `knowgate init` writes for them."""
    monkeypatch.chdir(tmp_path)
    write_toy_questions(tmp_path / "kb.jsonl", 60)
    text = 'questions = "kb.jsonl"\nscorer = "lexical"\nrisk = 0.2\nout = "out"\n'
    (tmp_path / "knowgate.toml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def measured(project: Path, finished_run: Path) -> Path:
    """The same, where everything is measured."""
    shutil.copytree(finished_run / "run", project / "out" / "run")
    (project / "out" / "run" / "calibration.json").unlink()
    (project / "out" / "run" / "calibrations.jsonl").unlink()
    return project


def test_what_init_writes_is_read_by_all_commands(
    knowgate: Knowgate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_toy_questions(tmp_path / "my kb.jsonl", 60)

    said = knowgate("init", "--questions", "my kb.jsonl", "--chain", "app:chain")

    assert said.out == "project file → knowgate.toml\nnext: knowgate check\n"
    values = tomllib.loads(Path("knowgate.toml").read_text(encoding="utf-8"))
    assert (values["questions"], values["chain"], values["risk"]) == (
        "my kb.jsonl", "app:chain", 0.1,
    )  # fmt: skip
    assert "at most 0.1 with" in knowgate(*PLAN).out
    refused(knowgate("init"), "knowgate.toml: exists already")


def test_every_commented_example_of_init_is_valid(
    knowgate: Knowgate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    knowgate("init")
    text = Path("knowgate.toml").read_text(encoding="utf-8")
    uncommented = re.sub(r"(?m)^# (?=[\w-]+ = )", "", text)
    Path("knowgate.toml").write_text(uncommented, encoding="utf-8")

    found = ProjectFile.find(None, COMMANDS)

    assert found is not None
    assert uncommented.count(" = ") > text.count("\nrisk") + 8
    for command in ("measure", "calibrate", "report"):
        assert not knowgate(command).err.startswith("error: knowgate.toml")


def _of_another_user(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.lchown(path, 12345, -1)
        monkeypatch.delenv("SUDO_UID", raising=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_of_another_user_is_named_and_not_read(
    knowgate: Knowgate, project: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    (project / "code.py").write_text("raise SystemExit('it ran')", encoding="utf-8")
    path = project / "knowgate.toml"
    path.write_text('questions = "kb.jsonl"\nchain = "code:chain"\nout = "out"\n')
    if kind == "link":
        path.rename(project / "own.toml")
        path.symlink_to("own.toml")
    _of_another_user(path, monkeypatch)
    (project / "below").mkdir()
    for folder in (project, project / "below"):
        monkeypatch.chdir(folder)
        refused(knowgate("measure"), "knowgate.toml", "another user", "--config")

    assert "at most 0.05 with" in knowgate("--config", path, *PLAN).out  # who names it trusts it


def test_the_command_line_wins_and_parents_are_searched(
    knowgate: Knowgate, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "at most 0.3 with" in knowgate(*PLAN, "--risk", "0.3").out
    (project / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(project / "deep" / "er")
    assert "60 questions on 60 passages can certify a leak of at most 0.2" in knowgate(*PLAN).out
    other = project / "other.toml"
    other.write_text("risk = 0.25\n")
    assert (
        "at most 0.25"
        in knowgate("--config", other, *PLAN, "--questions", project / "kb.jsonl").out
    )
    refused(knowgate("--config", project / "none.toml", *PLAN), "none.toml: no such file")
    assert "knowgate.toml" in knowgate("--help").out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("risk = 0.1\nquestion = 'x'\n", "knowgate.toml:2: there is no key 'question' — did you"),
        ("risk = 0.1\n[plans]\n", "knowgate.toml:2: there is no section 'plans' — "),
        ("[calibrate]\n# so\n\nshar = 1\n", "knowgate.toml:4: there is no key 'shar' in [cal"),
        ("[calibrate]\njson = true\n", "knowgate.toml:2: there is no key 'json' in [calibrate]"),
        ("calibrate = 3\n", "knowgate.toml:1: there is no key 'calibrate'"),
        ("risk = \n", "knowgate.toml: broken TOML: Invalid value (at line 1"),
        ("risk = 'low'\n", "'--risk'"),
        ("risk = true\n", "'--risk'"),
        ("[calibrate]\ndelta = [0.1]\n", "'--delta'"),
        ("[calibrate]\nmissing = 'none'\n", "'--missing'"),
    ],
)
def test_a_fault_in_the_file_is_named(
    knowgate: Knowgate, project: Path, text: str, words: str
) -> None:
    (project / "knowgate.toml").write_text(text, encoding="utf-8")

    refused(knowgate(*PLAN, "--questions", "kb.jsonl"), words)
    assert knowgate(*PLAN, "--help").code == 0


def test_the_section_of_a_group_holds_its_commands_alone(knowgate: Knowgate, project: Path) -> None:
    (project / "knowgate.toml").write_text("[kb]\nmodel = 'embedded'\n[eval]\nokb = {}\n")

    refused(knowgate("kb", "build", "d", "--out", "kb"), "toml:2: there is no key 'model' in [kb]")
    refused(knowgate("eval", "ookb", "--dry-run"), "'okb' in [eval] — did you mean 'ookb'?")


def test_an_option_of_the_file_for_other_uses_of_apply_is_no_fault(
    knowgate: Knowgate, project: Path
) -> None:
    (project / "knowgate.toml").write_text("[apply]\naggregator = 'max'\n")
    (project / "replies.jsonl").write_text('{"response": "I do not know."}\n')
    line = ("apply", "--abstention", "default", "--input", "replies.jsonl", "--output", "out.jsonl")
    assert knowgate(*line).code == 0


def test_check_measures_calibrates_and_reports(knowgate: Knowgate, project: Path) -> None:
    with (project / "knowgate.toml").open("a") as file:
        file.write('gates = ["auroc<0.8"]\n[report]\nformat = "json,md"\n[measure]\ntop-k = 5\n')

    first = knowgate("check")
    again = knowgate("check", "--json")

    assert (first.code, first.err) == (0, "options from knowgate.toml\n")
    assert first.out.startswith("measured: 120 cases, 0 failed → out/run\ncalibrated: With conf")
    assert "gate passed: fail if auroc<0.8; it is 1\n" in first.out
    assert "next:" not in first.out
    found = json.loads(again.out)
    assert (found["measure"]["already"], found["measure"]["stored"]) == (120, 0)
    assert found["calibrate"]["statement"] in first.out  # the same attempt, not another one
    assert sorted(path.name for path in (project / "out" / "report").iterdir()) == [
        "report.json", "report.md",
    ]  # fmt: skip


def test_a_failed_gate_is_exit_code_1_with_the_report(knowgate: Knowgate, measured: Path) -> None:
    said = knowgate("check", "--fail-if", "auroc<2")

    assert said.code == 1
    assert "gate failed: auroc is 1" in said.err
    assert "gate FAILED: fail if auroc<2; it is 1" in said.out
    assert (measured / "out" / "report" / "report.html").is_file()


def test_nothing_certified_is_exit_code_3_with_a_report_without_the_policy_of_an_earlier_check(
    knowgate: Knowgate, measured: Path, finished_run: Path
) -> None:
    shutil.copy(finished_run / "run" / "calibration.json", measured / "out" / "run")
    policy = Path(shutil.copy(finished_run / "policy.json", measured / "out"))
    refused(knowgate("check", "--risk", "2"), "--risk")  # nothing has changed then
    assert policy.read_bytes() == (finished_run / "policy.json").read_bytes()
    said = knowgate("check", "--risk", "0.01")

    assert said.code == 3
    assert "problem: " in said.err
    assert "refused: No threshold certifies" in said.out
    assert "calibrated" not in said.out
    assert not (measured / "out" / "policy.json").exists()
    report = json.loads((measured / "out" / "report" / "report.json").read_text())
    assert report["policy"] is None
    assert not list(measured.glob("out/**/*.before"))


def test_a_policy_that_is_there_is_judged_as_it_stands(
    knowgate: Knowgate, measured: Path, finished_run: Path
) -> None:
    policy = shutil.copy(finished_run / "policy.json", measured / "policy.json")
    before = Path(policy).read_bytes()
    # Of an earlier check, which calibrated one: the report would stand beside another policy.
    shutil.copy(policy, measured / "out")

    said = knowgate("check", "--policy", "policy.json", "--fail-if", "abstention_rate.low<50%")
    page, text = (
        (measured / "out" / "report" / f"report.{one}").read_text().replace("\u00a0", " ")
        for one in ("html", "md")
    )

    assert (said.code, said.err) == (0, "options from knowgate.toml\n")
    assert "policy: policy.json, as it stands" in said.out
    report = json.loads((measured / "out" / "report" / "report.json").read_text())
    assert report["left_out"]["abstention_rate"]["n"] == 60
    # It was calibrated on these very questions, which the run cannot know.
    given = "All measured questions, under a given policy (the rates are too good if it was calib"
    assert page.count(given) == 3  # two rates, the plot
    assert text.count(given) >= 2
    assert "held out" not in (page + text).lower().replace("held-out", "held out")
    assert "unknown: it was given" in text
    (guard,) = GuardChoice.load([measured / "out" / "run"])
    assert guard.held_out("What does it cost?") is None
    assert Path(policy).read_bytes() == before
    assert not (measured / "out" / "policy.json").exists()


def test_costs_do_not_say_which_answers_are_missing(
    knowgate: Knowgate, finished_run: Path, tmp_path: Path
) -> None:
    line = ("calibrate", "--run", finished_run / "run", "--out", tmp_path / "policy.json")
    found = knowgate(*line, "--cost", "leak=1,missing=left_out")
    refused(found, "--cost: 'missing=left_out' has an option of its own, --missing")
