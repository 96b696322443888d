"""Files of JSON lines that grow: torn lines, readers, several writers, other people's files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.suites.uniknow import KnowledgeStore
from knowgate.offline_eval.suites.uniknow._append_log import AppendLog


def test_reading_leaves_a_torn_line_on_disk_and_appending_cuts_it_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2')

    assert AppendLog(path).read() == [(1, {"a": 1})]
    # Somebody may be writing that line this very moment.
    assert path.read_bytes() == b'{"a": 1}\n{"a": 2'

    AppendLog(path).append([{"a": 3}])

    assert path.read_bytes() == b'{"a": 1}\n{"a": 3}\n'


def test_a_line_torn_by_another_writer_meanwhile_is_cut_off_too(tmp_path: Path) -> None:
    log = AppendLog(tmp_path / "log.jsonl")
    log.append([{"a": 1}])
    with log.path.open("ab") as stream:
        stream.write(b'{"a": ')

    log.append([{"a": 2}])

    assert [row for _, row in log.read()] == [{"a": 1}, {"a": 2}]


def test_writers_at_the_same_time_leave_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"

    def write(number: int) -> None:
        log = AppendLog(path)
        for step in range(20):
            log.append([{"writer": number, "step": step, "text": "x" * 500}])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    assert len(AppendLog(path).read()) == 80


@pytest.mark.parametrize("content", ["my notes", '{"my": "notes"}', '{"kept": 1}'])
def test_a_file_of_somebody_else_is_refused_and_left_as_it_is(content: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    path.write_text(content, encoding="utf-8")

    with pytest.raises(InputError, match=r"notes\.json:1: the line is no JSON object of this"):
        KnowledgeStore(path)

    assert path.read_text("utf-8") == content
