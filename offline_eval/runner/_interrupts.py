"""Ctrl-C and SIGTERM while calls are under way."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from ._daemon_threads import DaemonThreads

_Result = TypeVar("_Result")

_EXIT_CODE = 128 + signal.SIGTERM
_MOST_THREADS = 64


def run_interruptibly(work: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of `work` on an event loop of its own.

    Both signals cancel `work`, which so can put its affairs in order, instead of
    breaking off whatever the loop is just doing.

    Raises:
        KeyboardInterrupt: after Ctrl-C.
        SystemExit: after SIGTERM, with code 143.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        loop.set_default_executor(DaemonThreads(_MOST_THREADS))
        stopped = False

        async def guarded() -> _Result:
            task = asyncio.current_task()
            assert task is not None

            def stop() -> None:
                nonlocal stopped
                stopped = True
                task.cancel()

            with _on_sigterm(loop, stop):
                return await work

        try:
            return runner.run(guarded())
        except asyncio.CancelledError:
            if stopped:
                raise SystemExit(_EXIT_CODE) from None
            raise


@contextlib.contextmanager
def _on_sigterm(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    # Threads cannot have handlers; one who ignores the signal means it.
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield
        return
    loop.add_signal_handler(signal.SIGTERM, stop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        if before is not None:
            signal.signal(signal.SIGTERM, before)
