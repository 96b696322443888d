"""`knowgate eval uaqfact`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from knowgate.offline_eval.data.graph.layout import write_layout
from tests.offline_eval.cli.commands import Knowgate, refused
from tests.offline_eval.data.graph.layout_questions import small_set


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_layout(small_set(), tmp_path / "set")


def test_a_dry_run_counts_and_asks_nothing(knowgate: Knowgate, shared_data: Path) -> None:
    arguments = ("eval", "uaqfact", "--data", shared_data / "uaqfact", "--dry-run")
    assert "total en: 360" in knowgate(*arguments).out
    found = json.loads(knowgate(*arguments, "--json").out)
    assert found["total"] == {"en": 360, "zh": 360}
    assert found["counts"]["task1"]["zh"]["time"] == {"ua": 60, "ab": 60}
    assert found["counts"]["task2"]["en"]["inter"] == 120


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tasks", "4"], "no task '4'"),
        (["--forms", "prose"], "no form 'prose'"),
        (["--lang", "zh", "--out", "x"], "'zh'"),
        (["--lang", ","], "names no language"),
        (["--guard", "p.json", "--tasks", "1", "--out", "x"], "--tasks"),
        (["--scorer", "lexical", "--out", "x"], "--guard"),
        ([], "--out"),
        (["--model", "replay", "--out", "x"], "--replies"),
    ],
)
def test_bad_input_is_one_line(
    knowgate: Knowgate, folder: Path, arguments: list[str], message: str
) -> None:
    refused(knowgate("eval", "uaqfact", "--data", str(folder), *arguments), message)


def test_a_partial_folder_is_one_line(knowgate: Knowgate, folder: Path) -> None:
    shutil.rmtree(folder / "task3")
    refused(knowgate("eval", "uaqfact", "--data", str(folder), "--dry-run"), "task3")
