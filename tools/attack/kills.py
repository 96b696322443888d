"""Kill a run while it measures, again and again: is a row lost, repeated or changed?"""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.offline_eval.suites.ookb.toy import run_toy, write_toy_questions
from tests.support.commands import Program

from .outcome import Outcome

_FILES = ("manifest.json", "questions.jsonl", "rows.jsonl")
_QUESTIONS = 60
# A run is killed so often before it may end; then the next run is begun.
_KILLS_PER_RUN = 12


def _rows(run: Path) -> bytes:
    path = run / "rows.jsonl"
    return path.read_bytes() if path.exists() else b""


def _repeated(rows: bytes) -> bool:
    ids = [json.loads(line)["case_id"] for line in rows.splitlines()]
    return len(ids) != len(set(ids))


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Kill at random moments; what is stored must always be the beginning of the whole."""
    chance = random.Random(3)
    questions = write_toy_questions(folder / "kb.jsonl", _QUESTIONS)
    whole = run_toy(questions, folder / "whole")
    expected = _rows(whole)
    kills = damaged = runs = 0
    for number in range(5 if full else 1):
        runs += 1
        out, stored = folder / f"killed{number}", 0
        for _ in range(_KILLS_PER_RUN if full else 2):
            with Program(partial(run_toy, pause=0.002), questions, out) as process:
                wanted = min(stored + chance.randrange(1, 9), 2 * _QUESTIONS - 2)
                process.wait_for_lines(out / "rows.jsonl", wanted)
                process.signal(signal.SIGKILL)
                killed = process.wait() == -signal.SIGKILL
            before, stored = stored, _rows(out).count(b"\n")
            kills += killed
            damaged += not expected.startswith(_rows(out)) or stored < before
        run_toy(questions, out)
        same = all((out / name).read_bytes() == (whole / name).read_bytes() for name in _FILES)
        damaged += not same or _repeated(_rows(out))
    yield Outcome(f"rows lost or repeated by SIGKILL ({runs} runs)", kills, damaged)
