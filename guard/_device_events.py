"""Count what devices and the queue in front of them do, for every registry of the process.

Backends do not know which guards use them. The counts belong to the process: metrics that are
made later begin with what has happened before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol
from weakref import WeakSet

# Values of the label `event`, and what they count.
DEVICE_EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "batch": "batches that the queue handed to a device",
        "row": "rows in these batches",
        "dropped": "requests that nobody waited for any more, dropped before they were computed",
        "queue_full": "requests rejected by a full queue",
        "retried_apart": "joint batches that failed and were computed request by request",
        "worker_restarted": "threads of the queue that died",
        "out_of_memory": "batches that did not fit into the memory of a device",
        "not_finite": "rows that came back with NaN or infinity",
        "failed": "batches that failed on a device for another reason",
        "device_lost": "devices given up; the CPU computes from then on",
        "cpu_row": "rows that the CPU computed in place of a device",
    }
)


class Follower(Protocol):
    """Something that shows the counts."""

    def count_device_event(self, event: str, amount: int) -> None:
        """Add to the count of an event; never raises."""
        ...


class _Events:
    def __init__(self) -> None:
        self.counts = dict.fromkeys(DEVICE_EVENTS, 0)
        self.followers: WeakSet[Follower] = WeakSet()
        self.renew_lock()

    def renew_lock(self) -> None:
        self.lock = threading.Lock()


_events = _Events()
# Another thread may have held the lock when the process was forked.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_events.renew_lock)


def count(event: str, amount: int = 1) -> None:
    """Count an event, one of `DEVICE_EVENTS`, in every registry."""
    with _events.lock:
        _events.counts[event] += amount
        for follower in _events.followers:
            follower.count_device_event(event, amount)


def counts() -> dict[str, int]:
    """The counts of this process so far."""
    with _events.lock:
        return dict(_events.counts)


def follow(follower: Follower) -> None:
    """Give a follower the counts so far, and all later ones."""
    with _events.lock:
        for event, amount in _events.counts.items():
            follower.count_device_event(event, amount)
        _events.followers.add(follower)
