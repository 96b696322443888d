"""Rows that a test changed on purpose, bound to their run again."""

from __future__ import annotations

import json
from pathlib import Path

from knowgate.offline_eval.run import Manifest
from knowgate.offline_eval.run._rows import DIGEST, bound


def bind(run: Path, *tables: str) -> None:
    """Give the rows of tables (`rows` by default) the digests that knowgate would have stored."""
    for name in tables or ("rows",):
        path, last = run / f"{name}.jsonl", Manifest.first_digest(run, name)
        if last is None or not path.exists():
            continue
        lines = []
        for text in path.read_text(encoding="utf-8").split("\n"):
            if text:
                row = json.loads(text)
                row.pop(DIGEST, None)
                line, last = bound(json.dumps(row, ensure_ascii=False).encode(), last)
                lines.append(line.decode("utf-8") + "\n")
        path.write_text("".join(lines), encoding="utf-8")
