"""Gates of a report; the command, the report and the gates of a suite that is not built in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgate.offline_eval.suites import run_suite
from knowgate.offline_eval.suites.parts import System
from tests.offline_eval.cli.commands import Knowgate, refused
from tests.offline_eval.suites import arithmetic
from tests.offline_eval.suites.arithmetic import SUMS, Settings
from tests.offline_eval.suites.ookb.replies_run import Toy, toys, write_replies_run
from tests.offline_eval.suites.test_own_suite import Calculator


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """One system: 3 of 4 declined, one wrong."""
    return write_replies_run(tmp_path / "run", toys("yyy3"))


@pytest.mark.slow
def test_more_than_one_in_twenty_failed_replies_fail_every_gate(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    questions = [Toy(f"q{number}", {"s": "error" if number < 2 else "yes"}) for number in range(20)]
    run = write_replies_run(tmp_path / "run", questions)

    told = knowgate("report", run, "--fail-if", "abstention_rate<0.9")
    allowed = knowgate("report", run, "--fail-if", "abstention_rate<0.9", "--fail-if", "failed>20%")
    strict = knowgate("report", run, "--fail-if", "failed>0")

    assert (told.code, allowed.code, strict.code) == (1, 0, 1)
    assert told.err == "gate failed: failed is 0.1 (fail if failed>5%)\n"
    assert json.loads((run / "report.json").read_text("utf-8"))["failed"] == 0.1


_SUITE = f"python:{arithmetic.__name__}:SUMS"


def test_the_report_comes_in_every_format_and_a_gate_fails(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    run = run_suite(
        SUMS, Settings(upto=2), tmp_path / "run", [System("model", Calculator())]
    ).folder

    passed = knowgate("report", run, "--suite", _SUITE, "--fail-if", "accuracy<0.5")
    failed = knowgate(
        "report", run, "--suite", _SUITE, "--fail-if", "accuracy>0.5", "--format", "json,junit"
    )

    assert passed.code == 0, passed.err
    assert "Sums" in (run / "report.html").read_text(encoding="utf-8")
    assert "Accuracy" in (run / "report.md").read_text(encoding="utf-8")
    values = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert values["accuracy"]["value"] == 1.0
    assert failed.code == 1
    assert "gate failed" in failed.err


@pytest.mark.slow
def test_settings_become_options(knowgate: Knowgate) -> None:
    done = knowgate(
        "eval", _SUITE, "--dry-run", "--signs", "plus,minus", "--set", "upto=3", "--limit", "10",
        "--json",
    )  # fmt: skip
    said = knowgate("eval", _SUITE, "--help")

    assert done.code == 0, done.err
    assert json.loads(done.out) == {"cases": {"model": 10}}
    for words in ("Sums of small numbers", "The largest summand", "--retry-failed", "--guard"):
        assert words in said.out


def test_a_wrong_value_is_one_line(knowgate: Knowgate) -> None:
    refused(
        knowgate("eval", _SUITE, "--dry-run", "--signs", "times"), "--signs", "'plus' or 'minus'"
    )
    refused(knowgate("eval", _SUITE, "--dry-run", "--set", "upto=0"), "upto")
    refused(knowgate("eval", _SUITE), "--out: is missing")
    refused(knowgate("eval", "python:json:loads", "--dry-run"), "json")
