"""What belongs to the process: its counts, its forks, and how its threads end.

Caches and queues do not know which guards use them, so that every registry shows their
numbers; metrics that are made later begin with what has happened before. A forked process begins
at nothing: locks that another thread held, threads and open files are its parent's.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time
import weakref
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal

# What waits goes up and down; the other numbers only grow.
Family = Literal["caches", "queues"]
Labels = tuple[str, ...]
# Values of the label `queue`: questions that wait for their turn to be measured, calls that wait
# for a free thread, and calls that still hold one, although nobody waits for them.
QUEUES = ("turns", "calls", "overdue_calls")
# Calls that check their deadline end within one forward pass.
_GRACE_SECONDS = 1.0


# -- forks ----------------------------------------------------------------------------------------


_forkable: weakref.WeakSet[Any] = weakref.WeakSet()


def after_fork(thing: Any) -> None:
    """Call `thing.begin()` in every process that is forked from this one."""
    _forkable.add(thing)


def _begin_in_child() -> None:
    # Their threads are the parent's.
    _registered.clear()
    _totals.lock, _totals.of = threading.RLock(), {}
    for thing in list(_forkable):
        thing.begin()


@cache
def keep_torch_usable() -> None:
    """Let torch compute on one thread in every process that is forked from this one.

    The threads of torch's pool stay behind in the parent, and a forked process would wait for them
    for ever at its first operation that is split. That is how the workers of torch's own data
    loaders compute. Called once it is known that torch computes on the CPU here.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_compute_on_one_thread)


def _compute_on_one_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


# -- time ----------------------------------------------------------------------------------------


def cpu_count() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Budget:
    """Seconds that may be spent in blocks of `with`; those that overlap are counted once.

    Args:
        seconds: in all; infinity for no limit.

    Example:
        >>> budget = Budget(60.0)
        >>> with budget:
        ...     pass
        >>> 0 <= budget.spent < 60, 0 < budget.left <= 60
        (True, True)
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._before = seconds, 0.0
        self._lock, self._blocks, self._since = threading.Lock(), 0, 0.0

    @property
    def spent(self) -> float:
        """Seconds so far."""
        with self._lock:
            return self._before + (time.monotonic() - self._since if self._blocks else 0.0)

    @property
    def left(self) -> float:
        """Seconds to go, at least 0."""
        return max(0.0, self._seconds - self.spent)

    def __enter__(self) -> Budget:
        """Begin to spend."""
        with self._lock:
            if not self._blocks:
                self._since = time.monotonic()
            self._blocks += 1
        return self

    def __exit__(self, *exc: object) -> None:
        """Spend no more."""
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._before += time.monotonic() - self._since


# -- counts ---------------------------------------------------------------------------------------


# The lock is reentrant: the garbage collector may end a queue on a thread that holds it.
_totals = SimpleNamespace(
    lock=threading.RLock(),
    of=dict[tuple[Family, Labels], int](),
    # Of `GuardMetrics`.
    followers=weakref.WeakSet[Any](),
)


def add(family: Family, labels: Labels, amount: int) -> None:
    """Add to one number, in every registry."""
    with _totals.lock:
        total = _totals.of.get((family, labels), 0) + amount
        _totals.of[family, labels] = total
        shown = total if family == "queues" else amount
        for follower in _totals.followers:
            follower.show_process_count(family, labels, shown)


def totals(family: Family) -> dict[Labels, int]:
    """The numbers of one family so far."""
    with _totals.lock:
        return {labels: n for (name, labels), n in _totals.of.items() if name == family}


def follow(follower: Any) -> None:
    """Give a `GuardMetrics` the numbers so far, and all later ones."""
    with _totals.lock:
        for (family, labels), total in _totals.of.items():
            follower.show_process_count(family, labels, total)
        _totals.followers.add(follower)


def change_queue(queue: str, amount: int) -> None:
    """Add to what is in queues of one kind, one of `QUEUES`, or take away from it."""
    add("queues", (queue,), amount)


# -- the end --------------------------------------------------------------------------------------


_registered: weakref.WeakSet[Any] = weakref.WeakSet()  # pools of threads, of `deadlines`
_processes: set[int] = set()


def end_at_exit(threads: Any) -> None:
    """End a pool of threads when the process exits.

    Calls that nobody waits for have a second to finish, all others a second to end.
    """
    keep_exit_code()
    _registered.add(threads)


def keep_exit_code() -> None:
    """Let the process end with the code it wants, whichever daemon thread is still in C++."""
    if os.getpid() not in _processes:
        # Processes forked by multiprocessing forget it.
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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)
