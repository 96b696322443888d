"""What every command shares: the two consoles, figures as JSON, progress."""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from ..report.document import Document
    from ..report.tables import Cell
    from ..run.calls import Progress

# Without markup and emoji: `[x]` and `:x:` are part of names, say of `provider:x:model`.
out = Console(markup=False, highlight=False, soft_wrap=True, emoji=False)
err = Console(stderr=True, markup=False, highlight=False, soft_wrap=True, emoji=False)

_SHOWN_AFTER_SECONDS = 1.0
# In its boxes rich cuts the names of options where the terminal is narrow.
HELP_MODE: Any = "markdown" if get_terminal_size().columns >= 72 else None

_COLLECTED: ContextVar[list[Any] | None] = ContextVar("collected", default=None)


def only_figures() -> bool:
    """Whether the command that runs was given `--json`."""
    return out.quiet


@contextlib.contextmanager
def collected_figures() -> Iterator[list[Any]]:
    """Collect what commands that are run in the block hand to `print_figures`; print nothing."""
    found: list[Any] = []
    before, out.quiet = out.quiet, True
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        out.quiet = before
        _COLLECTED.reset(token)


def print_figures(values: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print figures as JSON where `--json` asks for them; otherwise do nothing.

    Args:
        values: may hold dataclasses, models and paths.
    """
    collected = _COLLECTED.get()
    if collected is not None:
        collected.append(values)
    elif only_figures():
        # Not through rich, which would wrap it.
        typer.echo(
            json.dumps(values, ensure_ascii=False, indent=2, allow_nan=False, default=_as_json)
        )


def _as_json(value: object) -> Any:
    from pydantic_core import to_jsonable_python  # here, so that help is shown without it

    return value.to_dict() if hasattr(value, "to_dict") else to_jsonable_python(value)


def json_line(value: Mapping[str, Any]) -> str:
    """`value` as one line of JSON lines, for `atomic_writer`."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def tell(macro: str, *given: Any, to: Console = out, style: str | None = None) -> None:
    """Print what a macro of `printed.txt` writes, one line per paragraph."""
    from ..report.prose import Templates

    for line in Templates(Path(__file__).with_name("printed.txt")).paragraphs(macro, *given):
        to.print(line, style=style)


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


def print_table(columns: Sequence[str], lines: Sequence[Sequence[object]]) -> None:
    """Print a table whose cells are never cut: a narrow terminal wraps its lines."""
    for line in aligned(columns, [[*map(str, cells)] for cells in lines]):
        out.print(line)


def print_document(document: Document) -> None:
    """Print what a report is about, its tables, and its headline."""
    from ..report.tables import Table

    out.print(document.subtitle)
    blocks = (block for section in document.sections if section for block in section.blocks)
    for table in blocks:
        if isinstance(table, Table):
            rows = [(line.name, *map(_cell, line.cells)) for line in table.lines]
            out.print()
            print_table((table.name, *table.columns), rows)
    for line in ("", *document.headline):
        out.print(line)


def _cell(cell: Cell) -> str:
    under = " ".join(cell.under.split())
    return f"{cell.value} [{under}]" if under else cell.value


def _is_number(cell: str) -> bool:
    return cell.removeprefix("≤ ").replace(".", "", 1).isdigit()


@contextlib.contextmanager
def _bar() -> Iterator[Callable[..., None]]:
    """A callback (stage, done, total, note) that draws a bar for each stage.

    Nothing is drawn within the first second, nor when standard error is not a terminal.
    """
    # Not rich's own opinion, which FORCE_COLOR changes.
    if not err.file.isatty():
        yield lambda *_: None
        return
    started = time.monotonic()
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=err,
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def advance(stage: str, done: int, total: int, note: str = "") -> None:
        if stage not in tasks:
            for task in tasks.values():
                bar.update(task, visible=False)
            tasks[stage] = bar.add_task(stage, total=None, note="")
        if not bar.live.is_started and time.monotonic() - started > _SHOWN_AFTER_SECONDS:
            bar.start()
        bar.update(tasks[stage], completed=done, total=total, note=note)

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


@contextlib.contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """A callback (done, total) that draws a bar on anything that takes over a second."""
    with _bar() as advance:
        yield functools.partial(advance, description)


@contextlib.contextmanager
def call_progress(title: str | None = None) -> Iterator[Callable[[Progress], None]]:
    """A callback that draws a bar for each stage of calls, with what was spent.

    Args:
        title: in place of the names of the stages.
    """
    with _bar() as advance:
        yield lambda now: advance(title or now.stage, now.done, now.total, spent(now))


def spent(progress: Progress) -> str:
    """Calls, tokens and failures, as far as there are any.

    Example:
        >>> from knowgate.offline_eval.run.calls import Progress
        >>> spent(Progress("asking", 10, 9, failed=1, calls=8, input_tokens=1200))
        '8 calls · 1200 tokens · 1 failed'
    """
    tokens = (progress.input_tokens or 0) + (progress.output_tokens or 0)
    counts = {"calls": progress.calls, "tokens": tokens, "failed": progress.failed}
    return " · ".join(f"{count} {what}" for what, count in counts.items() if count)
