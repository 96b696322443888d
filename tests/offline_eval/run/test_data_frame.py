"""Rows of a run as a data frame."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from knowgate.offline_eval.run import RowError, Run, Stored
from knowgate.offline_eval.run.manifest import Manifest
from knowgate.offline_eval.run.table import TableSpec


class Colour(StrEnum):
    """An enum in a row."""

    RED = "red"


class Row(Stored):
    """A row with a field of each kind."""

    row_id: str
    colour: Colour | None = None
    count: int | None = None
    score: float | None = None
    right: bool | None = None
    names: tuple[str, ...] = ()
    error: RowError | None = None


ROWS = TableSpec("rows", Row, "row_id")
DTYPES = {
    "row_id": "string",
    "colour": "string",
    "count": "Int64",
    "score": "float64",
    "right": "boolean",
    "names": "object",
    "error.type": "string",
    "error.detail": "string",
}


def stored(folder: Path, *rows: Row) -> Run:
    with Run.create_or_resume(folder, Manifest.new(suite="toy")) as run:
        run[ROWS].extend(rows)
    return Run.read(folder)


def test_each_row_is_a_line_and_each_field_a_typed_column(tmp_path: Path) -> None:
    whole = Row(row_id="a", colour=Colour.RED, count=3, score=0.5, right=True, names=("x", "y"))
    failed = Row(row_id="b", error=RowError(type="TimeoutError", detail="too late"))

    frame = stored(tmp_path / "run", whole, failed).to_pandas(ROWS)

    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == DTYPES
    assert list(frame["row_id"]) == ["a", "b"]
    assert list(frame.iloc[0][:6]) == ["a", "red", 3, 0.5, True, ["x", "y"]]
    assert list(frame.isna().sum()) == [0, 1, 1, 1, 1, 0, 1, 1]
    assert frame["error.type"][1] == "TimeoutError"


def test_a_run_without_rows_has_the_same_columns(tmp_path: Path) -> None:
    frame = stored(tmp_path / "run").to_pandas(ROWS)

    assert len(frame) == 0
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == DTYPES
