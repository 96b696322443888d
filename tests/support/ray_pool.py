"""What pools of workers do on a local Ray cluster, for `ray_run.py`."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from knowgate.adapters.ray.pool import PoolSize

_SMALL = 0.05  # CPUs: all pools find room at once, but for the one that must not

_Call = Callable[[str], Awaitable[str]]


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


async def _outcomes(
    factory: Callable[[], _Call], items: list[Any], size: PoolSize, seconds: float = 60.0
) -> list[str]:
    """What becomes of the items, asked all at once: the answer, or the error's type."""
    try:
        async with size.open(factory, timeout=seconds) as ask:
            answers = await asyncio.gather(*map(ask, items), return_exceptions=True)
    except Exception as error:  # noqa: BLE001 - what it was is what the test asks
        return [f"{type(error).__name__}: {error}"]
    return [answer if isinstance(answer, str) else type(answer).__name__ for answer in answers]


async def outcomes() -> dict[str, list[str]]:
    """What becomes of several pools at the same time, on one cluster of two CPUs."""
    many = [f"item {number}" for number in range(12)]

    def size(workers: int = 1, in_flight: int = 1, **more: Any) -> PoolSize:
        return PoolSize(workers, in_flight, cpus_per_worker=_SMALL, **more)

    pools = {
        "among others": _outcomes(_answering, [*many[:6], "deadly", *many[6:]], size(2, 4)),
        "late": _outcomes(_answering, ["a", "late", threading.Lock(), "b"], size(in_flight=2), 4.0),
        # Its second worker dies, too, and no third one may take its place.
        "blocking": _outcomes(
            _answering, ["blocking", "a", "deadly"], size(grace=0.5, max_restarts=1), 4.0
        ),
        "no model": _outcomes(_no_model, ["a"], size()),
        "dies at start": _outcomes(_dying, ["a"], size()),
        "no room": _outcomes(
            _answering, ["a"], PoolSize(workers=1, cpus_per_worker=3.0, start_timeout=1.0)
        ),
    }
    return dict(zip(pools, await asyncio.gather(*pools.values()), strict=True))
