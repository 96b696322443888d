"""Reading a run of this suite: everything is checked before anything is computed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ....guard.errors import InputError
from ...data.uaqfact import UaqData, read_layout
from ...run import checked_model, read_manifest, stored_rows
from ._plan import QUESTIONS, SUITE, UaqManifest, UaqRow

_HINT = "run `knowgate eval uaqfact` again into another folder"


@dataclass(frozen=True, slots=True)
class UaqRun:
    """A checked run.

    Attributes:
        manifest: the checked fields.
        data: the questions that were asked.
        rows: in the order in which they were stored; an unfinished run has fewer than the
            manifest says.
    """

    manifest: UaqManifest
    data: UaqData
    rows: tuple[UaqRow, ...]

    @property
    def tasks(self) -> tuple[int, ...]:
        """That were asked for."""
        return tuple(self.manifest.settings["tasks"])


def read_uaqfact_run(folder: str | os.PathLike[str]) -> UaqRun:
    """A run of this suite, finished or not.

    Raises:
        InputError: no such run there, or a file that is missing, broken or written by a newer
            knowgate; names file and line.
    """
    root = Path(folder)
    value = read_manifest(root)
    where = str(root / "manifest.json")
    if value.get("suite") != SUITE:
        raise InputError(
            f"the run is of suite {value.get('suite')!r}, not {SUITE!r}",
            where=where,
            hint="name a run made with `knowgate eval uaqfact`",
        )
    manifest = checked_model(UaqManifest, value, where=where, hint=_HINT)
    settings = manifest.settings
    tasks, languages = settings.get("tasks"), settings.get("languages")
    if not isinstance(tasks, list) or not isinstance(languages, list):
        raise InputError("settings lack tasks or languages", where=where, hint=_HINT)
    data = read_layout(root / QUESTIONS, languages=languages, tasks=tasks)
    rows: dict[str, UaqRow] = {}
    for place, row_value in stored_rows(root / "rows"):
        row = checked_model(UaqRow, row_value, where=place, hint=_HINT)
        if row.system not in manifest.systems:
            raise InputError(f"the run has no system {row.system[:60]!r}", where=place, hint=_HINT)
        rows[row.row_id] = row
    known = {item.key for item in data.items} | {choice.key for choice in data.choices}
    for row in rows.values():
        if row.key not in known:
            raise InputError(
                f"row {row.row_id[:80]!r} answers no question of the run",
                where=str(root / "rows"),
                hint=_HINT,
            )
    if not rows:
        raise InputError(
            f"the run is not finished (0 of {manifest.rows} rows)",
            where=str(root),
            hint="start the same `knowgate eval uaqfact` again, it goes on where it stopped",
        )
    return UaqRun(manifest, data, tuple(rows.values()))
