"""All parts of a run of replies that was made elsewhere, and writing them as a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from ...guard.files import file_sha256
from ..ookb import InputFile, OokbQuestion
from ..replies import (
    Judgement,
    ReplyCase,
    ReplyRow,
    ReplySystem,
    StoredPassage,
    start_replies_run,
)
from ..runner import open_store

WarningKind = Literal[
    "unknown_question",
    "unknown_context",
    "experiment_without_replies",
    "in_kb_left_out",
    "not_a_reply",
]


@dataclass(frozen=True, slots=True)
class InteropWarning:
    """Something that was left out of what was read or written, and did not end it.

    Attributes:
        kind: what sort of thing.
        where: the first such place, as `file:line`, file or system.
        detail: one clause for people.
        count: how many there are in that file.
    """

    kind: WarningKind
    where: str
    detail: str
    count: int = 1

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.where}: {self.detail}{times}"


OnWarning = Callable[[InteropWarning], None]


@dataclass(frozen=True, slots=True)
class RunParts:
    """A whole run of replies in memory.

    Attributes:
        settings: JSON-ready; where it came from.
        systems: who answered.
        questions: of all knowledge bases.
        passages: of all knowledge bases.
        cases: of those questions.
        replies: of those systems to those cases.
        judgements: that came along.
        inputs: files that it is made from.
        warnings: what was left out.
    """

    settings: Mapping[str, Any]
    systems: Sequence[ReplySystem]
    questions: Sequence[OokbQuestion]
    passages: Sequence[StoredPassage]
    cases: Sequence[ReplyCase]
    replies: Sequence[ReplyRow]
    judgements: Sequence[Judgement]
    inputs: Sequence[InputFile] = ()
    warnings: Sequence[InteropWarning] = ()


@dataclass(slots=True)
class WarningCounter:
    """Warnings, one per file and kind, with the first place and how many there were."""

    _found: dict[tuple[str, WarningKind], tuple[str, str, int]] = field(default_factory=dict)

    def add(self, kind: WarningKind, file: str, where: str, detail: str) -> None:
        """Count one more."""
        first = self._found.get((file, kind), (where, detail, 0))
        self._found[file, kind] = (first[0], first[1], first[2] + 1)

    def warnings(self) -> tuple[InteropWarning, ...]:
        """All of them, in the order in which each was first met."""
        return tuple(
            InteropWarning(kind, where, detail, count)
            for (_, kind), (where, detail, count) in self._found.items()
        )


def write_run(
    out: str | os.PathLike[str], parts: RunParts, *, on_warning: OnWarning | None = None
) -> Path:
    """Write `parts` as a run of replies; done again with the same parts, it changes nothing.

    Args:
        out: folder; made where missing.
        parts: checked.
        on_warning: called with each warning once all is written.

    Raises:
        InputError: the folder holds something else, or cannot be written.
    """
    root = start_replies_run(
        out,
        settings=parts.settings,
        systems=parts.systems,
        questions=parts.questions,
        passages=parts.passages,
        cases=parts.cases,
        replies=len(parts.replies),
        inputs=parts.inputs,
    )
    _append(root / "replies", "reply_id", parts.replies)
    _append(root / "judgements", "judgement_id", parts.judgements)
    for warning in parts.warnings if on_warning else ():
        if on_warning is not None:
            on_warning(warning)
    return root


def input_files(paths: Iterable[str | os.PathLike[str]]) -> tuple[InputFile, ...]:
    """Names and hashes of files that were read."""
    return tuple(InputFile(name=Path(path).name, sha256=file_sha256(path)) for path in paths)


def _append(stem: Path, key: str, rows: Sequence[BaseModel]) -> None:
    with open_store(stem, key=key) as store:
        # Handed over all at once, many rows are synced together.
        waiting = [
            store.submit(row.model_dump(mode="json"))
            for row in rows
            if getattr(row, key) not in store.done
        ]
        for stored in waiting:
            stored.result()
