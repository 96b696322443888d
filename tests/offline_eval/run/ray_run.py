"""Runs and pools on a local Ray cluster; prints what happened, as JSON.

    python -m tests.offline_eval.run.ray_run FOLDER many
        a run with a killed worker beside pools, on one cluster

A program of its own: Ray needs sockets and starts processes. What workers run is defined
here or beside, where they find it, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from knowgate.adapters.ray.pool import PoolSize
from knowgate.offline_eval.run import CallLimits
from knowgate.offline_eval.run.calls import Calls, Progress, RayPool
from tests.adapters.ray.cluster import local_cluster
from tests.support import ray_pool
from tests.support.any_rows import any_rows, any_table

_ITEMS, _WORKERS = 300, 2
# Items that wait until a worker has taken the place of the killed one.
_LATE = 250


class _CannotTravelError(Exception):
    """Cannot be made again from its arguments, as is common."""

    def __init__(self, status: int, text: str) -> None:
        self.status_code = status
        super().__init__(f"{status} {text}")


def _factory(folder: Path) -> Callable[[int], Awaitable[dict[str, Any]]]:
    asked = os.open(folder / "asked", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def call(item: int) -> dict[str, Any]:
        os.write(asked, f"{item}\n".encode())
        again = (folder / "asked").read_text(encoding="utf-8").split("\n").count(str(item)) > 1
        await asyncio.sleep(0.01)
        os.close(os.open(folder / f"worker-{os.getpid()}", os.O_WRONLY | os.O_CREAT))
        # A worker that starts slowly finds something to do, too.
        for _ in range(20 if item >= _LATE else 0):
            if sum(name.startswith("worker-") for name in os.listdir(folder)) > _WORKERS:
                break
            await asyncio.sleep(0.1)
        if item == 10:
            raise KeyError(item)
        if item == 20 and not again:
            raise RuntimeError("sent anew") from ConnectionResetError()
        if item == 30 and not again:
            raise _CannotTravelError(503, "busy")
        if item == 40:
            raise _CannotTravelError(401, "who are you")
        if item == 50:
            await asyncio.sleep(3600)
        return {"id": str(item), "worker": os.getpid(), "calls": 1}

    return call


def _failed(item: int, error: Exception) -> dict[str, Any]:
    return {"id": str(item), "error": type(error).__name__, "said": str(error)}


async def _killed_run(folder: Path) -> dict[str, Any]:
    """A run of two workers, one of which is killed in the middle."""
    killed: list[int] = []

    def kill_one(state: Progress) -> None:
        if state.done >= 100 and not killed:
            killed.append(next(r["worker"] for r in any_rows(folder / "rows") if "calls" in r))
            os.kill(killed[0], signal.SIGKILL)

    with any_table(folder / "rows") as store:
        limits = CallLimits(timeout=4.0, max_attempts=2, first_wait=0.01)
        calls = Calls[int](str, _failed, limits, kill_one)
        pool = RayPool(PoolSize(workers=_WORKERS, in_flight=4, cpus_per_worker=0.05))
        totals = await pool.run(calls, range(_ITEMS), partial(_factory, folder), store)
        again = await RayPool().run(
            Calls[int](str, _failed), range(_ITEMS), partial(_factory, folder), store
        )
    return {
        "stored": totals.stored,
        "failed": totals.failed,
        "calls": totals.calls,
        "again": again.stored,
        "killed": killed,
    }


def _many(folder: Path) -> None:
    async def all_of_them() -> dict[str, Any]:
        run, pools = await asyncio.gather(_killed_run(folder), ray_pool.outcomes())
        return {"run": run, "pools": pools}

    with local_cluster() as ray:
        said = asyncio.run(all_of_them())
        said["addresses"] = sorted({node["NodeManagerAddress"] for node in ray.nodes()})
        said["still connected"] = ray.is_initialized()
        deadline = time.monotonic() + 30
        while (left := ray.available_resources().get("CPU", 0)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        said["free CPUs"] = left
    said["connected at the end"] = ray.is_initialized()
    print(json.dumps(said))


if __name__ == "__main__":
    _many(Path(sys.argv[1]))
