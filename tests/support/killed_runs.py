"""A program whose runs are killed: imports once, then forks a run per line on its input.

    python killed_runs.py STEM ITEMS

A line is the number of items that the run asks before it waits to be killed; 0 for no limit.
Every run notes in `asked` (one line per call, before it) and `told` (one line per row that
the store says is on disk) beside the rows. Prints `started` and its process id for a run,
`storing` once it has stored a row, and `ended` and its wait status.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from knowgate.offline_eval.run import CallLimits
from knowgate.offline_eval.run.calls import Calls, Progress
from tests.support.any_rows import any_table


def _run(stem: Path, items: int, most: int) -> None:
    asked = os.open(stem.with_name("asked"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    told = os.open(stem.with_name("told"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    begun = 0

    async def call(item: int) -> dict[str, Any]:
        nonlocal begun
        begun += 1
        if most and begun > most:
            await asyncio.sleep(3600)
        os.write(asked, f"{item}\n".encode())
        await asyncio.sleep(0.004 + 0.0001 * (item * 7919 % 31))
        if item % 50 == 0:
            raise ValueError
        return {"id": str(item), "text": "x" * (item % 997), "calls": 1}

    def progress(state: Progress) -> None:
        if state.done == already + 1:
            print("storing", 0, flush=True)

    with any_table(stem) as store:
        already = len(store.done)
        append = store.append

        def noting(row: Any) -> None:
            append(row)
            os.write(told, f"{row['id']}\n".encode())

        store.append = noting  # type: ignore[method-assign]
        Calls[int](
            str,
            lambda item, error: {"id": str(item), "error": type(error).__name__},
            CallLimits(max_concurrency=8, max_attempts=1),
            progress,
        ).run_sync(range(items), call, store)


def main() -> None:
    stem, items = Path(sys.argv[1]), int(sys.argv[2])
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                _run(stem, items, int(line))
            except BaseException:  # noqa: BLE001 - the fork must not go on as the parent
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        print("started", child, flush=True)
        print("ended", os.waitpid(child, 0)[1], flush=True)


if __name__ == "__main__":
    main()
