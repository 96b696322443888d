"""Write what people said as CSV for a spreadsheet, or as JSON lines."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....guard.errors import InputError
from ....guard.files import atomic_writer

Row = Mapping[str, Any]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_export(
    path: str | os.PathLike[str],
    rows: Sequence[Row],
    columns: Sequence[str],
    flat: Callable[[Row], Iterable[tuple[str, Any]]] = lambda row: row.items(),
) -> None:
    """Write rows as CSV or JSON lines, by the name of the file.

    In CSV a text that a spreadsheet would take for a formula gets an apostrophe in front;
    JSON lines hold every text as it is.

    Args:
        path: ends in .csv or .jsonl.
        rows: values that JSON can hold.
        columns: of the CSV.
        flat: the cells of a row in CSV, by column.

    Raises:
        InputError: another suffix, or the file cannot be written.
    """
    is_csv = is_csv_name(path, "--export")
    with atomic_writer(path) as stream:
        if not is_csv:
            stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            return
        writer = csv.DictWriter(stream, columns, lineterminator="\r\n")
        writer.writeheader()
        writer.writerows({name: _cell(text) for name, text in flat(row)} for row in rows)


def is_csv_name(path: str | os.PathLike[str], option: str) -> bool:
    """Whether a file is CSV by its name, and not JSON lines.

    Raises:
        InputError: it is neither.
    """
    kind = Path(path).suffix.lower()
    if kind not in (".csv", ".jsonl"):
        raise InputError(
            "is neither CSV nor JSON lines",
            where=f"{option} {os.fspath(path)}",
            hint="end the name in .csv or .jsonl",
        )
    return kind == ".csv"


def from_cell(text: str) -> str:
    """A text as it was before it became a cell.

    Example:
        >>> from_cell("'=1+1"), from_cell("'tis")
        ('=1+1', "'tis")
    """
    return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    # NUL ends a file for some readers of CSV.
    text = value.replace("\x00", "\ufffd")
    return f"'{text}" if text.startswith(_FORMULA) else text
