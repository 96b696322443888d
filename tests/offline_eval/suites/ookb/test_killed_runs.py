"""A run that is killed goes on where it stopped and comes out byte for byte the same."""

from __future__ import annotations

import json
import resource
import signal
from functools import partial
from pathlib import Path

import pytest

from knowgate.guard import InputError
from tests.offline_eval.suites.ookb.toy import run_toy, write_toy_questions
from tests.support.commands import Program

_FILES = ("manifest.json", "questions.jsonl", "rows.jsonl")


def _start(questions: Path, out: Path, hang_at: int) -> Program:
    return Program(partial(run_toy, hang_at=hang_at), questions, out)


def _rows(out: Path) -> int:
    path = out / "rows.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _contents(out: Path) -> dict[str, bytes]:
    return {name: (out / name).read_bytes() for name in _FILES}


def test_a_run_killed_again_and_again_is_the_same_as_one_left_alone(tmp_path: Path) -> None:
    questions = write_toy_questions(tmp_path / "kb.jsonl", 40)
    whole, killed = run_toy(questions, tmp_path / "whole"), tmp_path / "killed"

    counts = []
    for rows in (1, 52):
        # However late it is killed, it is not at its end.
        with _start(questions, killed, hang_at=rows + 4) as process:
            process.wait_for_lines(killed / "rows.jsonl", rows)
            process.signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        counts.append(_rows(killed))
        # What is there is the beginning of what it should be.
        assert (whole / "rows.jsonl").read_bytes().startswith((killed / "rows.jsonl").read_bytes())
    run_toy(questions, killed)

    assert counts == sorted(counts)
    assert counts[-1] < 80
    assert _contents(killed) == _contents(whole)
    ids = [json.loads(line)["case_id"] for line in (killed / "rows.jsonl").open(encoding="utf-8")]
    assert len(ids) == len(set(ids)) == 80


def test_a_row_cut_off_anywhere_is_written_anew(toy: Path) -> None:
    rows = toy / "run" / "rows.jsonl"
    before = _contents(toy / "run")
    content = rows.read_bytes()
    start = content.rstrip(b"\n").rfind(b"\n") + 1

    for cut in (start + 1, content.rindex("ü".encode()) + 1, len(content) - 1):
        rows.write_bytes(content[:cut])
        run_toy(toy / "kb.jsonl", toy / "run")
        assert _contents(toy / "run") == before


def test_a_full_disk_is_one_clear_error_and_the_run_goes_on_once_there_is_room(
    tmp_path: Path,
) -> None:
    # A limit on the size of a file stands for the full disk.
    questions = write_toy_questions(tmp_path / "kb.jsonl", 40)
    whole, out = run_toy(questions, tmp_path / "whole"), tmp_path / "run"
    limit = (whole / "rows.jsonl").stat().st_size * 3 // 4
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(InputError, match=r"rows\.jsonl: cannot be written \(File too large\)"):
            run_toy(questions, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert 0 < _rows(out) < 80

    run_toy(questions, out)

    assert _contents(out) == _contents(whole)
