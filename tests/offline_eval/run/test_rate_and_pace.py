"""Calls are spaced evenly."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

import pytest

from knowgate.offline_eval.run import CallLimits
from knowgate.offline_eval.run.calls import RateLimit


class _JumpingSelector(selectors.SelectSelector):
    """Does not wait: moves the loop's clock on by what it would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


class _JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def stand_still(self, seconds: float) -> None:
        """As if a call kept the loop busy."""
        self._jumping.now += seconds


def _on_jumping_clock(work: Any) -> Any:
    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        return runner.run(work)


@pytest.mark.parametrize("at_once", [1, 3, 50])
def test_calls_are_one_interval_apart_whoever_makes_them(at_once: int) -> None:
    moments: list[float] = []

    async def run() -> None:
        limit = RateLimit(4.0)
        items = iter(range(20))

        async def worker() -> None:
            for _ in items:
                await limit.wait()
                moments.append(asyncio.get_running_loop().time())

        await asyncio.gather(*(worker() for _ in range(at_once)))

    _on_jumping_clock(run())

    assert moments == pytest.approx([0.25 * number for number in range(20)], abs=1e-6)


def test_a_loop_that_stood_still_is_not_followed_by_a_burst() -> None:
    moments: list[float] = []

    async def run() -> None:
        limit = RateLimit(10.0)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _JumpingLoop)

        async def call() -> None:
            await limit.wait()
            moments.append(loop.time())
            if len(moments) == 2:
                loop.stand_still(5.0)

        await asyncio.gather(*(call() for _ in range(8)))

    _on_jumping_clock(run())

    assert moments == pytest.approx([0.0, 0.1, *(5.1 + 0.1 * n for n in range(6))], abs=1e-6)


def test_who_gives_up_waiting_takes_no_turn() -> None:
    moments: list[float] = []

    async def run() -> None:
        limit = RateLimit(1.0)

        async def call() -> None:
            await limit.wait()
            moments.append(asyncio.get_running_loop().time())

        tasks = [asyncio.create_task(call()) for _ in range(4)]
        await asyncio.sleep(0.5)
        tasks[1].cancel()
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    _on_jumping_clock(run())

    assert moments == pytest.approx([0.0, 1.0], abs=1e-6)


def test_further_attempts_keep_to_the_rate_as_well() -> None:
    moments: list[float] = []

    async def attempt() -> None:
        moments.append(asyncio.get_running_loop().time())
        raise ConnectionError

    async def run() -> None:
        limit = RateLimit(0.5)
        rules = CallLimits(timeout=None, max_attempts=3, first_wait=0.0)
        await asyncio.gather(
            *(rules.attempt(attempt, limit) for _ in range(4)), return_exceptions=True
        )

    _on_jumping_clock(run())

    assert moments == pytest.approx([2.0 * number for number in range(12)], abs=1e-6)
