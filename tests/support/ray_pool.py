"""What pools of workers do on a local Ray cluster of two CPUs; prints it as JSON.

    python ray_pool.py

A program of its own: Ray needs sockets and starts processes. What workers run is defined
here, in the main module, and so travels to them.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from knowgate.adapters.ray import PoolSize, ray_cluster, worker_pool

_Call = Callable[[str], Awaitable[str]]


def _never(error: BaseException) -> bool:
    return False


def _answering() -> _Call:
    async def call(item: str) -> str:
        await asyncio.sleep(0.02)
        if item == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        if item == "late":
            await asyncio.sleep(3600)
        if item == "blocking":
            time.sleep(3600)  # noqa: ASYNC251 - a mistake that people make
        return item.upper()

    return call


def _no_model() -> _Call:
    raise FileNotFoundError("no such model")


def _dying() -> _Call:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


async def _outcomes(factory: Callable[[], _Call], items: list[Any], size: PoolSize) -> list[str]:
    """What becomes of the items, asked all at once: the answer, or the error's type."""
    try:
        async with worker_pool(factory, size, may_pass=_never, timeout=2.0) as pool:
            answers = await asyncio.gather(*map(pool.ask, items), return_exceptions=True)
    except Exception as error:  # noqa: BLE001 - what it was is what the test asks
        return [f"{type(error).__name__}: {error}"]
    return [answer if isinstance(answer, str) else type(answer).__name__ for answer in answers]


def main() -> None:
    small = PoolSize(workers=2, in_flight=4)
    many = [f"item {number}" for number in range(12)]
    with ray_cluster(None, 2) as ray:

        def run(factory: Callable[[], _Call], items: list[Any], size: PoolSize = small) -> Any:
            return asyncio.run(_outcomes(factory, items, size))

        said = {
            "among others": run(_answering, [*many[:6], "deadly", *many[6:]]),
            "late": run(_answering, ["a", "late", "b"], PoolSize(workers=1, in_flight=2)),
            "blocking": run(
                _answering, ["blocking", "a"], PoolSize(workers=1, in_flight=1, grace=0.5)
            ),
            "cannot travel": run(_answering, ["a", threading.Lock(), "b"]),
            "no restarts": run(
                _answering, ["deadly"], PoolSize(workers=1, in_flight=1, max_restarts=0)
            ),
            "no model": run(_no_model, ["a"]),
            "dies at start": run(_dying, ["a"]),
            "no room": run(_answering, ["a"], PoolSize(workers=3, start_timeout=4.0)),
            "still connected": ray.is_initialized(),
        }
        deadline = time.monotonic() + 30
        while (left := ray.available_resources().get("CPU", 0)) < 2 and time.monotonic() < deadline:
            time.sleep(0.2)
        said["free CPUs"] = left
    said["connected at the end"] = ray.is_initialized()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
