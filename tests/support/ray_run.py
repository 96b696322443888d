"""Runs on a local Ray cluster of two workers, one of which is killed; prints what happened.

    python ray_run.py FOLDER killed     one worker is killed in the middle
    python ray_run.py FOLDER forever    prints `stored`, and goes on until a signal comes

A program of its own: Ray needs sockets and starts processes. What workers run is defined
here, in the main module, and so travels to them with the run.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from knowgate.adapters.ray import PoolSize
from knowgate.offline_eval.runner import (
    CallProgress,
    open_store,
    run_calls_ray_sync,
    stored_rows,
)

_ITEMS = 300


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


def _forever() -> Callable[[int], Awaitable[dict[str, Any]]]:
    async def call(item: int) -> dict[str, Any]:
        await asyncio.sleep(3600 if item >= 20 else 0)
        return {"id": str(item)}

    return call


def _failed(item: int, error: Exception) -> dict[str, Any]:
    return {"id": str(item), "error": type(error).__name__, "said": str(error)}


def _ray() -> Any:
    return importlib.import_module("ray")  # has no types


def _killed(folder: Path) -> None:
    killed: list[int] = []
    addresses: list[str] = []

    def kill_one(state: CallProgress) -> None:
        addresses[:] = sorted({node["NodeManagerAddress"] for node in _ray().nodes()})
        if state.done >= 100 and not killed:
            killed.append(
                next(r["worker"] for _, r in stored_rows(folder / "rows") if "calls" in r)
            )
            os.kill(killed[0], signal.SIGKILL)

    with open_store(folder / "rows", key="id") as store:
        totals = run_calls_ray_sync(
            range(_ITEMS),
            partial(_factory, folder),
            store,
            key=str,
            failed=_failed,
            size=PoolSize(workers=2, in_flight=4),
            timeout=2.0,
            max_attempts=2,
            first_wait=0.01,
            on_progress=kill_one,
        )
        again = run_calls_ray_sync(
            range(_ITEMS), partial(_factory, folder), store, key=str, failed=_failed
        )
    said = {
        "stored": totals.stored,
        "failed": totals.failed,
        "calls": totals.calls,
        "again": again.stored,
        "killed": killed,
        "addresses": addresses,
        "cluster_left": _ray().is_initialized(),
    }
    print(json.dumps(said))


def _until_a_signal_comes(folder: Path) -> None:
    def progress(state: CallProgress) -> None:
        if state.done == 20:
            print("stored", flush=True)

    with open_store(folder / "rows", key="id") as store:
        run_calls_ray_sync(
            range(100), _forever, store, key=str, failed=_failed, on_progress=progress
        )


if __name__ == "__main__":
    {"killed": _killed, "forever": _until_a_signal_comes}[sys.argv[2]](Path(sys.argv[1]))
