"""The history of calibrations on the same data: which attempt is the next one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from ..._version import __version__
from ..run import Stored, TableSpec


class _Attempt(Stored):
    """One line of a history.

    Attributes:
        key: hash of what was calibrated on, and for what.
        number: which attempt it is; None in older files, where the place of the line says it.
        data_sha256: of the records; of several runs to choose from, of all their hashes.
        settings: what decides the result: the bound, δ and so on.
        at: when it was first made.
        created_by: program and version.
    """

    key: str
    number: int | None = Field(default=None, ge=1)
    data_sha256: str
    settings: dict[str, Any]
    at: str
    created_by: str


class AttemptHistory:
    """The calibrations that were made on one or several runs or records files, beside each.

    A calibration with the same data and settings gives the same result, so it counts once. In
    each file all numbers differ, and no attempt is tested at a higher level than its number there
    stands for, so that the levels of all attempts on a run sum to δ at most. This also holds where
    a kill left an attempt in some of the files only.

    Args:
        paths: of the files, `….jsonl`, one per run that is calibrated on; made with the first
            attempt, and only ever appended to.
    """

    def __init__(self, *paths: Path) -> None:
        hint = "restore the line: it counts an attempt"
        # A run that is named twice has one history.
        self._files = [
            (path.parent, TableSpec(path.stem, _Attempt, "key", hint=hint))
            for path in sorted({path.parent.resolve() / path.name for path in paths})
        ]

    def next_number(self) -> int:
        """Return which attempt one would be that was not made before, from 1.

        Raises:
            InputError: as `number`.
        """
        return max(_number_in(_numbers(spec.read(folder)), "") for folder, spec in self._files)

    def number(self, data_sha256: str, settings: dict[str, Any]) -> int:
        """Return which attempt this is, from 1, without recording it.

        It is one more than the largest number in any of the files, or, for a repetition, the
        number that it had.

        Raises:
            InputError: a history cannot be read, or a line of it is damaged.
        """
        key = _key(data_sha256, settings)
        return max(_number_in(_numbers(spec.read(folder)), key) for folder, spec in self._files)

    def record(self, data_sha256: str, settings: dict[str, Any], number: int) -> bool:
        """Store an attempt in all files, on disk when this returns.

        Args:
            data_sha256: of the records.
            settings: what decides the result.
            number: that it was tested as.

        Returns:
            False where another process has taken that number in the meantime.

        Raises:
            InputError: another process writes a history, or one cannot be written.
        """
        key = _key(data_sha256, settings)
        attempt = _Attempt(
            key=key,
            number=number,
            data_sha256=data_sha256,
            settings=settings,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            created_by=f"knowgate {__version__}",
        )
        with ExitStack() as opened:
            tables = [opened.enter_context(spec.open(folder)) for folder, spec in self._files]
            if max(_number_in(_numbers(table.rows()), key) for table in tables) != number:
                return False
            for table in tables:
                table.extend([attempt])
        return True


def _numbers(attempts: Iterable[_Attempt]) -> dict[str, int]:
    return {one.key: one.number or place for place, one in enumerate(attempts, start=1)}


def _number_in(numbers: dict[str, int], key: str) -> int:
    return numbers.get(key) or 1 + max(numbers.values(), default=0)


def _key(data_sha256: str, settings: dict[str, Any]) -> str:
    text = json.dumps([data_sha256, settings], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
