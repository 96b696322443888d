"""`knowgate.toml`, `knowgate init` and `knowgate check`."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_command

from knowgate.offline_eval.cli import app
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

    assert "at most 0.1 with" in knowgate("--config", path, *PLAN).out  # who names it trusts it


def test_the_file_is_named_once_and_only_where_it_changes_something(
    knowgate: Knowgate, measured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert knowgate("check", "--accept-generated").err.count("options from knowgate.toml\n") == 1
    assert knowgate("models").err == ""
    (measured / "deep").mkdir()
    monkeypatch.chdir(measured / "deep")
    assert knowgate(*PLAN).err.startswith(f"options from {measured / 'knowgate.toml'}\n")


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


def test_a_scorer_that_is_a_folder_is_relative_to_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tuned", "lexical", "deep"):
        (project / name).mkdir()
    monkeypatch.chdir(project / "deep")

    def scorer(shared: str, own: str | None = None, command: str = "measure") -> object:
        section = "" if own is None else f"[{command}]\nscorer = {own}\n"
        (project / "knowgate.toml").write_text(f'scorer = "{shared}"\n{section}')
        file = ProjectFile.find(None, COMMANDS)
        assert file is not None
        root: Any = get_command(app)
        found = root.get_command(Context(root), command)
        return file.defaults([command], found, [])["scorer"]

    tuned = str(project / "tuned")
    assert scorer("tuned") == [tuned]
    assert scorer("tuned,device=cpu") == [f"{tuned},device=cpu"]
    assert scorer("hf:tuned") == [f"hf:{tuned}"]
    assert scorer("lexical", '"tuned"') == [tuned]
    assert scorer("tuned", '["tuned", "lexical"]', "measure") == [tuned, "lexical"]
    for name in ("lexical", "hf:none", "judge:tuned"):
        assert scorer(name) == [name]


def test_options_that_exclude_each_other_leave_the_file_out(
    knowgate: Knowgate, project: Path
) -> None:
    (project / "records.jsonl").write_text("{}\n")

    said = knowgate("calibrate", "--records", "records.jsonl", "--coverage", "0.5")

    refused(said, "records.jsonl:1")


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


def test_a_value_of_the_wrong_type_is_rejected_as_if_it_were_typed(
    knowgate: Knowgate, project: Path
) -> None:
    (project / "knowgate.toml").write_text("[measure]\ntop_k = 1.5\n", encoding="utf-8")

    refused(knowgate("measure", "--questions", "kb.jsonl"), "'--top-k'", "valid integer")


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


def test_check_takes_the_sections_of_what_it_runs(knowgate: Knowgate, measured: Path) -> None:
    file = measured / "knowgate.toml"
    text = file.read_text() + 'gates = ["auroc<0.8"]\n'
    file.write_text(
        f"{text}[calibrate]\nrisk = 0.25\ndelta = 0.2\n"
        '[report]\nfail-if = ["auroc<2"]\nformat = "json"\n'
    )

    said = knowgate("check", "--json")
    found = json.loads(said.out)

    assert said.code == 1
    policy = json.loads((measured / "out" / "policy.json").read_text())
    assert (policy["guarantee"]["risk"], policy["guarantee"]["delta"]) == (0.25, 0.2)
    assert [one["expression"] for one in found["report"]["gates"]] == ["auroc<0.8", "auroc<2"]
    assert [Path(one).name for one in found["report"]["written"]] == ["report.json"]
    # What is given to check itself wins: its section, and before that the command line.
    file.write_text(file.read_text() + '[check]\nrisk = 0.3\nfail_if = ["auroc<0.7"]\n')
    found = json.loads(knowgate("check", "--delta", "0.15", "--format", "md", "--json").out)
    policy = json.loads((measured / "out" / "policy.json").read_text())
    assert (policy["guarantee"]["risk"], policy["guarantee"]["delta"]) == (0.3, 0.15)
    assert len(found["report"]["gates"]) == 3
    assert [Path(one).name for one in found["report"]["written"]] == ["report.md"]
    found = json.loads(knowgate("check", "--fail-if", "auroc<0.5", "--json").out)
    assert [one["expression"] for one in found["report"]["gates"]] == ["auroc<0.5"]


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
    assert page.count(given) == 4  # two rates, the slider, the plot
    assert text.count(given) >= 2
    assert "held out" not in (page + text).lower().replace("held-out", "held out")
    assert "unknown: it was given" in text
    (guard,) = GuardChoice.load([measured / "out" / "run"])
    assert guard.held_out("What does it cost?") is None
    assert Path(policy).read_bytes() == before
    assert not (measured / "out" / "policy.json").exists()


def test_a_check_without_questions_writes_nothing(
    knowgate: Knowgate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(knowgate("check"), "--questions: is missing", "knowgate init")
    refused(knowgate("check", "--questions", "none.csv"), "none.csv: no such file")
    refused(knowgate("check", "--questions", "none.csv", "--policy", "p.json"), "p.json")
    assert list(tmp_path.iterdir()) == []
