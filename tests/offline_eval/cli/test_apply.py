"""`knowgate apply`: a result for each line, of pairs, of logged signals and of replies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.offline_eval.cli.commands import Knowgate, Outcome, read_lines, refused, write_lines
from tests.support.paths import ROOT


def _apply(knowgate: Knowgate, folder: Path, *options: str | Path) -> Outcome:
    return knowgate(
        "apply", "--input", folder / "in.jsonl", "--output", folder / "out.jsonl", *options
    )


def _score(knowgate: Knowgate, folder: Path, *more: str | Path) -> Outcome:
    return _apply(knowgate, folder, "--scorer", "lexical", *more)


def _route(knowgate: Knowgate, folder: Path) -> Outcome:
    return _apply(knowgate, folder, "--policy", folder / "policy.json")


def test_odd_passages_and_questions_are_lines_and_not_failures(
    knowgate: Knowgate, tmp_path: Path
) -> None:
    lines: list[dict[str, Any]] = [
        {"question": "Pool?", "passages": []},
        {"question": "Pool?", "passages": ["", "pool", {"text": ""}, {"page_content": "pool"}]},
        {"question": " ", "passages": ["pool"]},
        {"question": "Pool?", "passages": ["pool"], "gold": float("nan"), "more": {}},
        {"question": "Po\ud800ol\0?", "passages": ["\udfff"], "id": "\ud800"},
    ]
    write_lines(tmp_path / "in.jsonl", lines)

    _score(knowgate, tmp_path)

    found = read_lines(tmp_path / "out.jsonl")
    assert (found[0]["scores"], found[0]["relevance"]) == ([], 0.0)
    assert [score is None for score in found[1]["scores"]] == [True, False, True, False]
    assert found[2] == {"scores": None, "relevance": None, "error": "the question is empty"}
    assert set(found[3]) == {"scores", "relevance", "error"}
    assert found[4]["id"] == "\ud800"


# A limit on the size of a file stands for the full disk, in a process of its own.
_FULL_DISK = """
import resource, runpy
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
runpy.run_module("knowgate", run_name="__main__")
"""


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_what_was_there_stays(workplace: Path) -> None:
    write_lines(workplace / "in.jsonl", [{"relevance": 0.5}] * 400)
    out = workplace / "out.jsonl"
    out.write_text("mine\n", encoding="utf-8")
    before = set(workplace.iterdir())

    done = subprocess.run(
        [
            sys.executable, "-c", _FULL_DISK, "apply", "--policy", workplace / "policy.json",
            "--input", workplace / "in.jsonl", "--output", out,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    refused(Outcome(done.returncode, done.stdout, done.stderr), "File too large")
    assert out.read_text(encoding="utf-8") == "mine\n"
    assert set(workplace.iterdir()) == before


def test_a_pipe_is_written_to_and_not_replaced(knowgate: Knowgate, workplace: Path) -> None:
    # A pipe of the test's own: no device of the machine is put at risk.
    out = workplace / "out.jsonl"
    os.mkfifo(out)
    reader = os.open(out, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_lines(workplace / "in.jsonl", [{"relevance": 0.5}])

        outcome = _route(knowgate, workplace)

        assert outcome.code == 0
        assert out.is_fifo()
        assert json.loads(os.read(reader, 65536))["relevance"] == 0.5
    finally:
        os.close(reader)
