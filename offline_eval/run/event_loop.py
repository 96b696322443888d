"""Event loops that end on Ctrl-C and SIGTERM, with threads that do not delay the end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from ...guard.deadlines import DeadlineRunner

_P = ParamSpec("_P")
_Result = TypeVar("_Result")
_EXIT_CODE = 128 + signal.SIGTERM
# Stuck calls keep their thread, so there are more of them than calls at once.
_MOST_THREADS = 256


def run_interruptibly(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run `work` on an event loop of its own and return its result.

    Ctrl-C and SIGTERM cancel `work`, which can then clean up. Where a loop runs already, as in
    a notebook, the other one runs in a thread; SIGTERM is then left to the program.

    Raises:
        KeyboardInterrupt: after Ctrl-C.
        SystemExit: after SIGTERM, with code 143.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(work)
    return _run_in_thread(work)


def _run_in_thread(work: Coroutine[Any, Any, _Result]) -> _Result:
    cancel: Future[Callable[[], object]] = Future()

    async def cancellable() -> _Result:
        task = asyncio.current_task()
        assert task is not None
        cancel.set_result(lambda: task.get_loop().call_soon_threadsafe(task.cancel))
        return await work

    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(contextvars.copy_context().run, _run, cancellable())
        try:
            return result.result()
        except KeyboardInterrupt:
            cancel.result()()
            raise


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
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
    # Threads cannot have handlers; a process that ignores the signal keeps ignoring it.
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


class DaemonThreads(ThreadPoolExecutor):
    """An executor whose threads keep neither an event loop nor the process from ending.

    LangChain runs models without an async form on the loop's default executor. The
    usual one is joined at the end, so that Ctrl-C would wait for every answer under way.

    Args:
        max_threads: started when they are needed.
    """

    def __init__(self, max_threads: int) -> None:
        # Starts none; asyncio insists on the type.
        super().__init__(max_threads)
        self._threads_apart = DeadlineRunner(max_threads)

    def submit(
        self, fn: Callable[_P, _Result], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_Result]:
        """Run a call on a thread; see `ThreadPoolExecutor.submit`."""
        future: Future[_Result] = Future()
        task = partial(_perform, future, partial(fn, *args, **kwargs))
        self._threads_apart.start(task, most_waiting=sys.maxsize)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Return at once."""


def _perform(future: Future[Any], task: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(task())
    except BaseException as error:  # noqa: BLE001 - passed on to the caller
        future.set_exception(error)
