"""The command line in processes of its own: start, kill, pipes."""

from __future__ import annotations

import os
import shutil
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
def test_a_killed_command_goes_on_where_it_stopped(tmp_path: Path, finished_run: Path) -> None:
    questions, whole = finished_run / "kb.jsonl", finished_run / "run"
    rows = tmp_path / "run" / "rows.jsonl"
    arguments = ("measure", "--questions", questions, "--scorer", "lexical", "--out")
    for _ in range(20):
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        with command(*arguments, tmp_path / "run") as process:
            process.wait_for_lines(rows, 1)
            process.signal(signal.SIGKILL)
            process.wait()
        killed = rows.read_bytes()
        if killed.count(b"\n") < 120:  # a busy machine may kill it too late
            break

    with command(*arguments, tmp_path / "run") as resumed:
        assert resumed.wait() == 0, resumed.err
    assert killed.count(b"\n") < 120
    assert rows.read_bytes().startswith(killed[: killed.rfind(b"\n") + 1])
    for name in ("manifest.json", "questions.jsonl", "rows.jsonl"):
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes()


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
