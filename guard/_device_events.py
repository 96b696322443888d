"""Count what devices and the queue in front of them do, for every registry of the process."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import _process_counts

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


def count(event: str, amount: int = 1) -> None:
    """Count an event, one of `DEVICE_EVENTS`, in every registry."""
    _process_counts.add("devices", (event,), amount)


def counts() -> dict[str, int]:
    """The counts of this process so far."""
    found = _process_counts.totals("devices")
    return {event: found.get((event,), 0) for event in DEVICE_EVENTS}
