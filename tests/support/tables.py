"""Tables of cases that are data: sentences and what becomes of them, in JSON lines by a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def table(test: str, name: str) -> list[Any]:
    """The rows of one table, in their order.

    Args:
        test: `__file__` of the test; the tables have its name and end with `.jsonl`.
        name: of the table, which each line gives before its row.
    """
    lines = Path(test).with_suffix(".jsonl").read_text(encoding="utf-8").splitlines()
    return [row for at, row in map(json.loads, lines) if at == name]
