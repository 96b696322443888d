"""Coroutines run on a loop of their own, also where one runs already."""

from __future__ import annotations

import asyncio
import threading

from knowgate.offline_eval.run.event_loop import run_interruptibly


async def answered() -> tuple[int, str]:
    await asyncio.sleep(0)
    return 3, threading.current_thread().name


def test_without_a_loop_the_work_runs_in_this_thread() -> None:
    assert run_interruptibly(answered()) == (3, threading.current_thread().name)


async def test_where_a_loop_runs_the_work_runs_in_another_thread() -> None:
    number, thread = run_interruptibly(answered())

    assert number == 3
    assert thread != threading.current_thread().name
