"""Tables of rows without a model, for tests of tables and calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from knowgate.offline_eval.run import Stored
from knowgate.offline_eval.run.table import Table, TableSpec


class AnyRow(Stored):
    """A row that may hold anything."""

    model_config = ConfigDict(extra="allow")


@contextmanager
def any_table(stem: str | Path, key: str = "id") -> Iterator[Table[AnyRow]]:
    """Open `<stem>.jsonl`."""
    path = Path(stem)
    with TableSpec(path.name, AnyRow, key).open(path.parent) as table:
        yield table


def any_rows(stem: str | Path) -> list[dict[str, Any]]:
    """Return the whole rows of `<stem>.jsonl`; none without a file."""
    path = Path(stem)
    path = path.with_name(f"{path.name}.jsonl")
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]
