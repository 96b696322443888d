"""Completion in three shells, terminals of 40 columns, and `NO_COLOR`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from knowgate.offline_eval.cli._app import COMMANDS
from knowgate.offline_eval.cli._console import print_table
from tests.offline_eval.cli.commands import Knowgate
from tests.support.paths import ROOT

_ASK = """
import contextlib, io, json, os, sys
from knowgate.__main__ import main
found = {}
for shell, words in json.loads(sys.argv[1]):
    os.environ.update(
        _KNOWGATE_COMPLETE=f"complete_{shell}", COMP_WORDS=words, _TYPER_COMPLETE_ARGS=words,
        COMP_CWORD=str(words.count(" ")), _TYPER_COMPLETE_FISH_ACTION="get-args",
    )
    sys.argv = ["knowgate"]
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main()
    found[f"{shell}: {words}"] = text.getvalue()
    if words == "knowgate " and shell == "bash":
        found["imported"] = [n for n in sys.modules if n.endswith("cli._calibrate")]
for shell in ("bash", "zsh", "fish"):
    os.environ["_KNOWGATE_COMPLETE"] = f"source_{shell}"
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        main()
    found[f"{shell}: source"] = text.getvalue()
heavy = {"torch", "transformers", "onnxruntime"} & set(sys.modules)
print(json.dumps({"found": found, "heavy": sorted(heavy)}))
"""


def test_completion_answers_in_three_shells_without_loading_torch() -> None:
    asked = [
        (shell, words) for shell in ("bash", "zsh", "fish") for words in
        ("knowgate ", "knowgate cal", "knowgate report --fa", "knowgate --con")
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        [sys.executable, "-c", _ASK, json.dumps(asked)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    value = json.loads(done.stdout)
    found = value["found"]
    assert value["heavy"] == []
    assert len(found["bash: knowgate "].split()) == len(COMMANDS)
    # No command is imported to say what there is.
    assert found.pop("imported") == []
    assert found["bash: knowgate cal"].split() == ["calibrate"]
    assert found["bash: knowgate report --fa"].split() == ["--fail-if"]
    assert found["bash: knowgate --con"].split() == ["--config"]
    for shell in ("zsh", "fish"):
        for words in ("calibrate", "--fail-if", "--config"):
            assert any(words in text for name, text in found.items() if name.startswith(shell))
    for shell in ("bash", "zsh", "fish"):
        assert "_KNOWGATE_COMPLETE=complete_" in found[f"{shell}: source"]


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
