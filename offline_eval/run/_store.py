"""Untyped tables by path, until the suites have moved to `Run`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ._rows import locked
from ._rows import stored_rows as _stored_rows
from ._table import Table, TableSpec, open_table


class _AnyRow(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


@contextmanager
def open_store(stem: str | Path, *, key: str) -> Iterator[Table[Any]]:
    """Open `<stem>.jsonl` as a table of any rows."""
    base = Path(stem)
    with open_table(base.parent, TableSpec(base.name, _AnyRow, key)) as table:
        yield table


def stored_rows(stem: str | Path) -> list[tuple[str, dict[str, Any]]]:
    """Return place and row for all whole rows of `<stem>.jsonl`."""
    base = Path(stem)
    return _stored_rows(base.with_name(f"{base.name}.jsonl"))


@contextmanager
def sole_writer(stem: str | Path) -> Iterator[None]:
    """Keep other processes out while this lasts."""
    with locked(Path(stem)):
        yield
