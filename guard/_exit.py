"""End worker threads with the process, so that no thread aborts it, whoever started it."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
import weakref
from typing import Protocol

# Calls that check their deadline end within one forward pass.
_GRACE_SECONDS = 1.0


class Endable(Protocol):
    """Something with threads."""

    def finish(self, seconds: float) -> None:
        """Wait for what nobody else waits for, at most so long."""
        ...

    def end_at_exit(self) -> list[threading.Thread]:
        """Let the threads end, and return them."""
        ...


_registered: weakref.WeakSet[Endable] = weakref.WeakSet()
_processes: set[int] = set()


def end_at_exit(threads: Endable) -> None:
    """End `threads` when the process exits.

    Calls that nobody waits for have a second to finish, all others a second to end.
    """
    keep_exit_code()
    _registered.add(threads)


def keep_exit_code() -> None:
    """Let the process end with the code it wants, whichever daemon thread is still in C++."""
    if os.getpid() not in _processes:  # processes forked by multiprocessing forget it
        _processes.add(os.getpid())
        atexit.register(_end)


def _end() -> None:
    ends = time.monotonic() + _GRACE_SECONDS
    for one in list(_registered):
        one.finish(max(0.0, ends - time.monotonic()))
    threads = [thread for one in list(_registered) for thread in one.end_at_exit()]
    ends = time.monotonic() + _GRACE_SECONDS
    for thread in threads:
        thread.join(max(0.0, ends - time.monotonic()))
    # Daemon threads of the application may be scoring, too.
    if any(thread is not threading.current_thread() for thread in threading.enumerate()):
        _let_threads_hang()


def _let_threads_hang() -> None:
    """Make what C++ would abort the process for wait for the end of the process instead.

    Before 3.14, Python ends a thread that comes back to it at this time by unwinding its
    stack. C++ code such as torch's has functions that nothing may unwind through: there the
    whole process would be aborted. From 3.14 on Python itself lets such threads hang.
    """
    if sys.version_info >= (3, 14) or not sys.platform.startswith("linux"):
        return
    try:
        # Only if something has loaded it already.
        cpp = ctypes.CDLL("libstdc++.so.6", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
        cpp._ZSt13set_terminatePFvvE(ctypes.cast(ctypes.CDLL(None).pause, ctypes.c_void_p))
    except (OSError, AttributeError):
        return
