"""A run that is killed goes on where it stopped and comes out byte for byte the same."""

from __future__ import annotations

import json
import resource
import signal
from functools import partial
from pathlib import Path

import pytest

from knowgate.calibration.risk import Leak
from knowgate.guard import InputError
from knowgate.offline_eval.policies import calibrate_run
from knowgate.offline_eval.run.measured_run import MeasuredRun
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


@pytest.mark.parametrize("left", ["nothing", "temporary", "manifest", "no questions"])
def test_a_kill_before_the_first_row_is_gone_on_from(toy: Path, left: str) -> None:
    before = _contents(toy / "run")
    out = toy / "again"
    out.mkdir()
    if left == "temporary":
        (out / ".manifest.json.abc.tmp").write_bytes(b'{"schema')
    if left in ("manifest", "no questions"):
        (out / "manifest.json").write_bytes(before["manifest.json"])
    if left == "no questions":
        (out / "rows.jsonl").write_bytes(before["rows.jsonl"][:400])

    run_toy(toy / "kb.jsonl", out)

    assert _contents(out) == before


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


def test_a_run_with_other_settings_is_refused_and_left_as_it_is(toy: Path) -> None:
    before = _contents(toy / "run")

    with pytest.raises(InputError, match=r"another run \(its settings\.top_k differs\)"):
        run_toy(toy / "kb.jsonl", toy / "run", top_k=4)

    assert _contents(toy / "run") == before


@pytest.mark.parametrize("cut", ["no rows yet", "between rows", "within a row"])
def test_an_unfinished_run_is_not_reported_on_and_says_how_to_go_on(toy: Path, cut: str) -> None:
    rows = toy / "run" / "rows.jsonl"
    content = rows.read_bytes()
    if cut == "no rows yet":
        rows.unlink()
    elif cut == "between rows":
        rows.write_bytes(content[: content.index(b"\n") + 1])
    else:
        rows.write_bytes(content[:-20])

    with pytest.raises(InputError, match=r"the run is not finished \(\d+ of 120 cases\).*start"):
        MeasuredRun.read(toy / "run")
    with pytest.raises(InputError, match="not finished"):
        calibrate_run(toy / "run", toy / "policy.json", Leak(0.1), delta=0.1)

    assert not (toy / "policy.json").exists()


def test_without_its_questions_a_run_says_how_to_get_them_back(toy: Path) -> None:
    before = _contents(toy / "run")
    (toy / "run" / "questions.jsonl").unlink()

    with pytest.raises(InputError, match=r"no questions\.jsonl in the run folder — start the same"):
        MeasuredRun.read(toy / "run")
    run_toy(toy / "kb.jsonl", toy / "run")

    assert _contents(toy / "run") == before
