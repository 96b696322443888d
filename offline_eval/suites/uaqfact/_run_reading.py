"""A stored run of this suite with its questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....guard.errors import InputError
from ...data.graph import UaqData
from ._plan import QUESTIONS, UaqManifest, UaqRow

_HINT = "run `knowgate eval uaqfact` again into another folder"


@dataclass(frozen=True, slots=True)
class UaqRun:
    """A checked run.

    Attributes:
        manifest: of the run.
        data: the questions that were asked.
        rows: in the order in which they were stored; an unfinished run has fewer than the
            manifest says.
    """

    manifest: UaqManifest
    data: UaqData
    rows: tuple[UaqRow, ...]

    @property
    def tasks(self) -> tuple[int, ...]:
        """The tasks that were asked for."""
        return tuple(self.manifest.settings["tasks"])


def checked_run(
    folder: Path, manifest: UaqManifest, places: Sequence[tuple[str, UaqRow]]
) -> UaqRun:
    """Check that the parts of a run belong together.

    Args:
        folder: of the run, with its questions.
        manifest: of the run.
        places: `file:line` and row.

    Raises:
        InputError: a row names no system or question of the run, or the questions are broken.
    """
    settings = manifest.settings
    data = UaqData.read(
        folder / QUESTIONS, languages=settings["languages"], tasks=settings["tasks"]
    )
    known = {item.key for item in data.items} | {choice.key for choice in data.choices}
    for where, row in places:
        if row.system not in manifest.systems:
            raise InputError(f"the run has no system {row.system[:60]!r}", where=where, hint=_HINT)
        if row.key not in known:
            raise InputError(
                f"row {row.row_id[:80]!r} answers no question of the run", where=where, hint=_HINT
            )
    return UaqRun(manifest, data, tuple(row for _, row in places))
