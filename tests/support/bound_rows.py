"""Rows that a test changed on purpose, bound to their run again."""

from __future__ import annotations

import json
from pathlib import Path

from knowgate.offline_eval.run.table import TableSpec
from tests.support.any_rows import AnyRow


def bind(run: Path, *tables: str) -> None:
    """Give the rows of tables (`rows` by default) the digests that knowgate would have stored."""
    for name in tables or ("rows",):
        path = run / f"{name}.jsonl"
        if not path.exists():
            continue
        rows = [json.loads(text) for text in path.read_text("utf-8").split("\n") if text]
        for row in rows:
            row.pop("chain_digest", None)
        path.write_text(TableSpec(name, AnyRow, "id").bound_text(run, rows), "utf-8")
