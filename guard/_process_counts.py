"""Numbers that belong to the process, shown in every registry: devices, caches, queues.

Backends, caches and queues do not know which guards use them. Metrics that are made later begin
with what has happened before. A forked process begins at nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, Protocol
from weakref import WeakSet

Family = Literal["devices", "caches", "queues"]
# What waits goes up and down; the other numbers only grow.
_LEVELS = frozenset({"queues"})
# Values of the label `queue`, and what is in them.
QUEUES: Mapping[str, str] = MappingProxyType(
    {
        "rows": "rows that wait for a device",
        "turns": "questions that wait for their turn to be measured",
        "calls": "calls that wait for a free thread",
        "overdue_calls": "calls that still hold a thread, although nobody waits for them",
    }
)
Labels = tuple[str, ...]


class Follower(Protocol):
    """Something that shows the numbers."""

    def show_process_count(self, family: Family, labels: Labels, amount: int) -> None:
        """Add to a count, or set a level; never raises."""
        ...


class _Process:
    def __init__(self) -> None:
        self.followers: WeakSet[Follower] = WeakSet()
        self.begin()

    def begin(self) -> None:
        # Another thread may have held the lock when the process was forked.
        # Reentrant: the garbage collector may end a queue on a thread that holds it.
        self.lock = threading.RLock()
        self.totals: dict[tuple[Family, Labels], int] = {}


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.begin)


def add(family: Family, labels: Labels, amount: int) -> None:
    """Add to one number, in every registry."""
    with _process.lock:
        total = _process.totals.get((family, labels), 0) + amount
        _process.totals[family, labels] = total
        shown = total if family in _LEVELS else amount
        for follower in _process.followers:
            follower.show_process_count(family, labels, shown)


def totals(family: Family) -> dict[Labels, int]:
    """The numbers of one family so far."""
    with _process.lock:
        return {labels: n for (name, labels), n in _process.totals.items() if name == family}


def follow(follower: Follower) -> None:
    """Give a follower the numbers so far, and all later ones."""
    with _process.lock:
        for (family, labels), total in _process.totals.items():
            follower.show_process_count(family, labels, total)
        _process.followers.add(follower)


def count_lookups(cache: str, hits: int, misses: int) -> None:
    """Count what a cache was asked for."""
    if hits:
        add("caches", (cache, "hit"), hits)
    if misses:
        add("caches", (cache, "miss"), misses)


def change_queue(queue: str, amount: int) -> None:
    """Add to what is in queues of one kind, one of `QUEUES`, or take away from it."""
    if amount:
        add("queues", (queue,), amount)
