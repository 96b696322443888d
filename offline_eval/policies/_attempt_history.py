"""The history of calibrations on the same data: which attempt is the next one."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..._version import __version__
from ..run import Stored, TableSpec


class _Attempt(Stored):
    """One line of a history.

    Attributes:
        key: hash of what was calibrated on, and for what.
        data_sha256: of the records.
        settings: what decides the result: the bound, δ and so on.
        at: when it was first made.
        created_by: program and version.
    """

    key: str
    data_sha256: str
    settings: dict[str, Any]
    at: str
    created_by: str


class AttemptHistory:
    """The calibrations that were made on one run or records file, in a file beside it.

    A calibration with the same data and settings gives the same result, so it counts once.

    Args:
        path: of the file, `….jsonl`; made with the first attempt, and only ever appended to.
    """

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._spec = TableSpec(
            path.stem, _Attempt, "key", hint="restore the line: it counts an attempt"
        )

    def number(self, data_sha256: str, settings: dict[str, Any]) -> int:
        """Return which attempt this is, from 1, without recording it.

        Raises:
            InputError: the history cannot be read, or a line of it is damaged.
        """
        keys = [attempt.key for attempt in self._spec.read(self._folder)]
        key = _key(data_sha256, settings)
        return keys.index(key) + 1 if key in keys else len(keys) + 1

    def record(self, data_sha256: str, settings: dict[str, Any], number: int) -> bool:
        """Store an attempt, on disk when this returns.

        Args:
            data_sha256: of the records.
            settings: what decides the result.
            number: that it was tested as.

        Returns:
            False where another process has taken that number in the meantime.

        Raises:
            InputError: another process writes the history, or it cannot be written.
        """
        key = _key(data_sha256, settings)
        with self._spec.open(self._folder) as table:
            keys = list(table.done)
            if key in keys:
                return keys.index(key) + 1 == number
            if len(keys) + 1 != number:
                return False
            table.append(
                _Attempt(
                    key=key,
                    data_sha256=data_sha256,
                    settings=settings,
                    at=datetime.now(UTC).isoformat(timespec="seconds"),
                    created_by=f"knowgate {__version__}",
                )
            )
        return True


def _key(data_sha256: str, settings: dict[str, Any]) -> str:
    text = json.dumps([data_sha256, settings], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
