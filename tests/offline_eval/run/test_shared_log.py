"""Files of JSON lines that several processes append to: torn lines, readers, other files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.run import Stored
from knowgate.offline_eval.run.table import SharedLog


class _Row(Stored):
    a: int
    text: str = ""


def _log(path: Path) -> SharedLog[_Row]:
    return SharedLog(path, _Row, opening='{"a": ')


def _numbers(path: Path) -> list[int]:
    return [row.a for _, row in _log(path).places()]


def test_reading_leaves_a_torn_line_on_disk_and_appending_cuts_it_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2')

    assert _log(path).places() == [(f"{path}:1", _Row(a=1))]
    # Another process may be writing that line.
    assert path.read_bytes() == b'{"a": 1}\n{"a": 2'

    _log(path).append([_Row(a=3)])

    assert _numbers(path) == [1, 3]
    assert path.read_bytes().startswith(b'{"a": 1}\n{"a": 3')


def test_a_whole_last_line_without_an_end_is_a_row_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}')

    assert _numbers(path) == [1, 2]
    _log(path).append([_Row(a=3)])

    assert _numbers(path) == [1, 2, 3]
    assert path.read_bytes().startswith(b'{"a": 1}\n{"a": 2}\n{"a": 3')


def test_writers_at_the_same_time_leave_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"

    def write(_number: int) -> None:
        log = _log(path)
        for step in range(20):
            log.append([_Row(a=step, text="x" * 500)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    assert len(_numbers(path)) == 80


@pytest.mark.parametrize("content", ["my notes", '{"my": "notes"}', '{"kept": 1}'])
def test_a_file_that_is_not_such_a_log_is_rejected_and_left_as_it_is(
    content: str, tmp_path: Path
) -> None:
    path = tmp_path / "notes.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(InputError, match=r"notes\.json:1: "):
        _log(path).places()

    assert path.read_text("utf-8") == content
