"""A run that is killed again and again loses nothing and repeats nothing."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.any_rows import any_rows
from tests.support.paths import ROOT

_PROGRAM = ROOT / "tests" / "support" / "killed_runs.py"
_KILLS = 40
# Before a run waits to be killed: a busy machine kills it late, and would leave too few.
_ITEMS_OF_A_RUN = 12
# More than runs get done before their last kill.
_ITEMS = 530
_LONGEST = 0.012
_AT_ONCE = 8


@contextlib.contextmanager
def _program(stem: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(_PROGRAM), str(stem), str(_ITEMS)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as program:
        try:
            yield program
        finally:
            program.kill()


def _run(program: subprocess.Popen[str], seconds: float | None, *, storing: bool = False) -> int:
    """Let a run go on, for so long if a number is given; its wait status.

    Args:
        program: as above.
        seconds: counted from its beginning, or from its first row if `storing`.
    """
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(f"{0 if seconds is None else _ITEMS_OF_A_RUN}\n")
    words = program.stdout.readline().split()
    child = int(words[1])
    if storing:
        words = program.stdout.readline().split()
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    while words[0] != "ended":
        words = program.stdout.readline().split()
    return int(words[1])


def _noted(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []


@pytest.mark.slow
def test_many_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    stem, items = tmp_path / "rows", _ITEMS
    chance = random.Random(20)
    stored: set[str] = set()
    found_rows = 0
    with _program(stem) as program:
        for kill in range(_KILLS):
            asked_before = len(_noted(tmp_path / "asked"))
            # Every other one may come before the store is even open.
            moment = chance.uniform(0.0, _LONGEST)
            assert _run(program, moment, storing=kill % 2 == 1) == signal.SIGKILL

            asked = _noted(tmp_path / "asked")[asked_before:]
            rows = {row["id"] for row in any_rows(stem)}
            told = _noted(tmp_path / "told")
            assert not stored & set(asked), "a stored item was asked again"
            assert set(told) <= rows, "a row that was said to be on disk is not there"
            assert stored <= rows
            # Nothing else was paid for twice: only calls that were under way are lost.
            assert len(set(asked) - rows) <= _AT_ONCE
            found_rows += len(rows) > len(stored)
            stored = rows
        assert len(stored) < items, "the run was over before its last kill"
        assert _run(program, None) == 0

    final = any_rows(stem)
    assert Counter(row["id"] for row in final) == Counter(str(item) for item in range(items))
    for row in final:
        number = int(row["id"])
        if number % 50 == 0:
            assert row["error"] == "ValueError"
        else:
            assert row["text"] == "x" * (number % 997)
    told_once = Counter(_noted(tmp_path / "told"))
    assert set(told_once.values()) == {1}
    # The kills met runs at work, not only ones that were starting.
    assert found_rows >= _KILLS / 2
