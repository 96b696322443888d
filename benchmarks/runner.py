"""What the runner adds to a call: bounded, rated, retried, and stored before it counts.

    python benchmarks/runner.py

Scripted calls that all sleep alike, with a bare `asyncio.gather` of as many workers beside:
medians of wall time and of CPU time. `--folder` says on which disk the stores are.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from pydantic import ConfigDict

from knowgate.offline_eval.run import CallLimits, Stored
from knowgate.offline_eval.run.calls import Calls
from knowgate.offline_eval.run.table import TableSpec


class Row(Stored):
    """Any row with a key."""

    model_config = ConfigDict(extra="allow")
    reply_id: str


ROWS = TableSpec("rows", Row, "reply_id")
TEXT = "The registry opens at nine on weekdays and closes at five. " * 5


def scripted(seconds: float) -> Callable[[int], Awaitable[dict[str, Any]]]:
    """A call that takes `seconds` and answers with a row of about 400 bytes."""

    async def call(item: int) -> dict[str, Any]:
        await asyncio.sleep(seconds)
        return {"reply_id": f"system/{item}", "response": TEXT, "calls": 1, "input_tokens": 100}

    return call


async def bare(calls: int, at_once: int, seconds: float) -> float:
    """Seconds for the same calls with nothing around them but their number at once."""
    call = scripted(seconds)
    items = iter(range(calls))

    async def worker() -> None:
        for item in items:
            await call(item)

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    return time.perf_counter() - began


async def stored(calls: int, at_once: int, seconds: float, folder: Path) -> float:
    """Seconds for the runner, opening and closing the table included."""
    began = time.perf_counter()
    with ROWS.open(folder) as table:
        totals = await Calls[int](
            lambda item: f"system/{item}",
            lambda item, error: {"reply_id": f"system/{item}", "error": str(error)},
            CallLimits(max_concurrency=at_once, timeout=60.0),
        ).run(range(calls), scripted(seconds), table)
    assert totals.stored == calls
    assert totals.failed == 0
    return time.perf_counter() - began


def measured(work: Coroutine[Any, Any, float]) -> tuple[float, float]:
    """Seconds that `work` says it took, and seconds of CPU, writer's thread included."""
    began = time.process_time()
    took = asyncio.run(work)
    return took, time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=None, help="where stores are made")
    options = parser.parse_args()
    print("| calls | at once | s each | way | ms (ratio to bare) | added ms per call | CPU |")
    print("|---|---|---|---|---|---|---|")
    for calls, at_once, seconds in (
        (options.calls, options.calls, 0.0),
        (options.calls, options.calls, 0.1),
        (10 * options.calls, options.calls, 0.1),
        (options.calls, 8, 0.01),
    ):
        times: dict[str, list[tuple[float, float]]] = {"bare": [], "stored": []}
        for _ in range(options.repeats):
            times["bare"].append(measured(bare(calls, at_once, seconds)))
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                work = stored(calls, at_once, seconds, Path(folder))
                times["stored"].append(measured(work))
        base, base_cpu = (statistics.median(column) for column in zip(*times["bare"], strict=True))
        for way, pairs in times.items():
            took, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
            print(
                f"| {calls} | {at_once} | {seconds:g} | {way} | {took * 1e3:.0f} "
                f"({took / base:.2f}) | {(took - base) / calls * 1e3:.3f} "
                f"| {(cpu - base_cpu) / calls * 1e3:.3f} |"
            )


if __name__ == "__main__":
    main()
