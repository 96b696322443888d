"""The command line in processes of its own: start, kill, pipes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.offline_eval.cli.commands import write_lines
from tests.support.commands import command
from tests.support.paths import ROOT


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
