"""`knowgate calibrate` on questions that rules made."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.offline_eval.cli.commands import Knowgate, read_lines, write_lines
from tests.offline_eval.suites.ookb.toy import run_toy, write_toy_questions


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = write_toy_questions(tmp_path / "kb.jsonl", 30)
    rows = [{**row, "made_by": "rules"} for row in read_lines(path)]
    return run_toy(write_lines(path, rows), tmp_path / "run")


def test_the_command_exits_with_3_and_names_the_option(knowgate: Knowgate, run: Path) -> None:
    policy = run.with_name("policy.json")
    command = ("calibrate", "--run", run, "--risk", "0.3", "--out", policy)

    refused = knowgate(*command)
    accepted = knowgate(*command, "--accept-generated")

    assert refused.code == 3
    assert "problem: Rules made all of the questions behind this" in refused.err
    assert "--accept-generated" in refused.err
    assert accepted.code == 0, accepted.err
    assert "Rules made all of the questions behind this" in accepted.out
    assert policy.exists()
    report = knowgate("report", run, "--format", "md")
    assert report.code == 0, report.err
    text = (run / "report.md").read_text(encoding="utf-8")
    assert "Rules made all of the questions behind this" in text
    assert "Words shared with the passage" in text
