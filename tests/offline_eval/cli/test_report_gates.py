from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.offline_eval.cli.commands import Knowgate
from tests.offline_eval.suites.ookb.replies_run import Toy, toys, write_replies_run


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
