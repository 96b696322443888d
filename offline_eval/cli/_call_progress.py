"""A progress bar over calls that cost money: what is left, and what was spent."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from ..run import Progress
from ._console import err

_SHOWN_AFTER_SECONDS = 1.0


@contextlib.contextmanager
def call_progress(description: str) -> Iterator[Callable[[Progress], None]]:
    """A callback that draws a bar with time left, tokens and failures.

    Nothing is drawn when standard error is not a terminal, nor within the first second.
    """
    if not err.file.isatty():
        yield lambda _progress: None
        return
    started = time.monotonic()
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[spent]}"),
        console=err,
        transient=True,
    )
    task = bar.add_task(description, total=None, left="", spent="")
    shown = False

    def advance(progress: Progress) -> None:
        nonlocal shown
        if not shown and time.monotonic() - started > _SHOWN_AFTER_SECONDS:
            shown = True
            bar.start()
        bar.update(
            task,
            completed=progress.done,
            total=progress.total,
            left=time_left(progress.eta_seconds),
            spent=spent(progress),
        )

    try:
        yield advance
    finally:
        if shown:
            bar.stop()


@contextlib.contextmanager
def call_stages(names: Mapping[str, str] | None = None) -> Iterator[Callable[[Progress], None]]:
    """Give a callback that draws one bar after another, one for each stage.

    Args:
        names: of stages, where the bar is to call them otherwise.
    """
    stage: str | None = None
    with contextlib.ExitStack() as stack:
        bars: list[Callable[[Progress], None]] = []

        def advance(progress: Progress) -> None:
            nonlocal stage
            if progress.stage != stage:
                stack.close()
                name = (names or {}).get(progress.stage, progress.stage)
                bars[:] = [stack.enter_context(call_progress(name))]
                stage = progress.stage
            bars[0](progress)

        yield advance


def time_left(seconds: float | None) -> str:
    """`m:ss left`, or nothing where it is not known.

    Example:
        >>> time_left(75.4), time_left(None)
        ('1:15 left', '')
    """
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} left"


def spent(progress: Progress) -> str:
    """Calls, tokens and failures, as far as there are any.

    Example:
        >>> spent(Progress("asking", 9, 10, failed=1, calls=8, input_tokens=1200))
        '8 calls · 1200 tokens · 1 failed'
    """
    tokens = (progress.input_tokens or 0) + (progress.output_tokens or 0)
    parts = [
        f"{progress.calls} calls" if progress.calls else "",
        f"{tokens} tokens" if tokens else "",
        f"{progress.failed} failed" if progress.failed else "",
    ]
    return " · ".join(part for part in parts if part)
