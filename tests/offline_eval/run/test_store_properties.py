"""Whatever rows go in, and wherever the file is cut, whole rows come out and only those."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.any_rows import any_rows, any_table

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
        for pending in [store.submit(row) for row in rows]:
            pending.result(timeout=30)


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
