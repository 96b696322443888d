"""What the README shows is what the code does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from knowgate.offline_eval.cli._app import app

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_every_python_example_compiles() -> None:
    assert len(PYTHON) >= 4
    for example in PYTHON:
        compile(example, "README.md", "exec")


def test_the_metrics_example_runs_and_shows_the_abstention_rate() -> None:
    [example] = [text for text in PYTHON if "start_http_server" in text]

    printed = subprocess.run(
        [sys.executable, "-c", example.replace("9464", "0")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert len(example.strip().split("\n")) <= 10
    assert printed == "abstention rate 0.67\n"


def test_every_command_in_the_readme_exists_with_these_options() -> None:
    shown = re.findall(r"^(?:\$ )?knowgate ((?:[a-z-]+ )+?)(--.*|[a-z]*)$", README, re.MULTILINE)
    assert shown
    for words, options in shown:
        found = CliRunner().invoke(app, [*words.split(), "--help"], env={"COLUMNS": "200"})
        assert found.exit_code == 0, words
        for option in re.findall(r"--[a-z-]+", options):
            assert option in found.stdout, f"{words} {option}"
