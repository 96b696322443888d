"""Many calls that cost money: bounded, retried, and stored so that a kill loses nothing.

    items ─► call (bounded, rate-limited, retried) ─► row ─► store ─► acknowledged
                └─ no attempt succeeded: `failed` makes the row

Rows go to `<stem>.jsonl` or `<stem>.sqlite`; what is in there is not asked again.
Importing this package loads neither torch nor LangChain nor Ray.
"""

from __future__ import annotations

from ._calls import run_calls, run_calls_sync
from ._lock import sole_writer
from ._progress import CallProgress, RunTotals
from ._ray_calls import run_calls_ray, run_calls_ray_sync
from ._rows import UnstorableRowError
from ._store import RowStore, StoreKind, open_store, stored_rows
from ._threads import in_threads

__all__ = [
    "CallProgress",
    "RowStore",
    "RunTotals",
    "StoreKind",
    "UnstorableRowError",
    "in_threads",
    "open_store",
    "run_calls",
    "run_calls_ray",
    "run_calls_ray_sync",
    "run_calls_sync",
    "sole_writer",
    "stored_rows",
]
