"""Files of JSON lines of several processes, cut anywhere: whole rows come out."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.run import Stored
from knowgate.offline_eval.run.table import SharedLog
from tests.support.any_rows import any_rows, any_table


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


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
_ROWS = st.lists(
    st.builds(
        lambda key, rest: {**rest, "key": key},
        st.text(min_size=1),
        st.dictionaries(st.text(), _VALUES, max_size=3),
    ),
    max_size=6,
    unique_by=lambda row: row["key"],
)


def _store(stem: Path, rows: list[dict[str, Any]]) -> None:
    with any_table(stem, "key") as store:
        store.extend(rows)


def _read(stem: Path) -> list[dict[str, Any]]:
    return any_rows(stem)


@settings(max_examples=20, deadline=None)
@given(rows=_ROWS)
def test_any_rows_come_back_as_they_were(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _store(Path(folder) / "rows", rows)

        assert _read(Path(folder) / "rows") == rows
        with any_table(Path(folder) / "rows", "key") as store:
            assert list(store.done) == [row["key"] for row in rows]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(rows=_ROWS, data=st.data())
def test_after_any_cut_exactly_the_whole_rows_are_left_and_the_rest_can_follow(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stem, path = Path(folder) / "rows", Path(folder) / "rows.jsonl"
        _store(stem, rows)
        content = path.read_bytes()
        cut = data.draw(st.integers(0, len(content)), label="cut")
        ends = [place for place, byte in enumerate(content, start=1) if byte == 10]
        whole = sum(end <= cut for end in ends)
        path.write_bytes(content[:cut])

        assert len(ends) == len(rows)
        assert _read(stem) == rows[:whole]
        _store(stem, rows[whole:])
        assert path.read_bytes() == content
