"""What every command shares: the two consoles, progress, the shape of errors."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ...guard.errors import InputError

# Without emoji: `:x:` is part of a name, say of `provider:x:model`.
out = Console(highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

_SHOWN_AFTER_SECONDS = 1.0


def json_line(value: Mapping[str, Any]) -> str:
    """`value` as one line of JSON lines, for `atomic_writer`."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def checked_id(value: Mapping[str, Any], where: str) -> None:
    """Reject an `id` that JSON cannot hold.

    Raises:
        InputError: it is, or holds, NaN or infinity.
    """
    try:
        json.dumps(value.get("id"), allow_nan=False)
    except ValueError:
        raise InputError(
            "field 'id' holds NaN or infinity, which JSON has not",
            where=where,
            hint="use text or a whole number as id",
        ) from None


def aligned(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table for a terminal or a pipe, which has no width.

    Args:
        columns: headings.
        lines: a cell per column; columns of numbers are aligned to the right.
    """
    by_column = list(zip(columns, *lines, strict=True))
    widths = [max(map(len, column)) for column in by_column]
    numbers = [all(map(_is_number, column[1:])) for column in by_column]
    for line in (columns, *lines):
        cells = (
            f"{cell:>{width}}" if right else f"{cell:<{width}}"
            for cell, width, right in zip(line, widths, numbers, strict=True)
        )
        yield "  ".join(cells).rstrip()


def _is_number(cell: str) -> bool:
    return cell.removeprefix("≤ ").replace(".", "", 1).isdigit()


@contextlib.contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """A callback (done, total) that draws a bar on anything that takes over a second.

    Nothing is drawn when standard error is not a terminal.
    """
    # Not rich's own opinion, which FORCE_COLOR changes.
    if not err.file.isatty():
        yield lambda _done, _total: None
        return
    started = time.monotonic()
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
        transient=True,
    )
    task = bar.add_task(description, total=None)
    shown = False

    def advance(done: int, total: int) -> None:
        nonlocal shown
        if not shown and time.monotonic() - started > _SHOWN_AFTER_SECONDS:
            shown = True
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        if shown:
            bar.stop()
