"""Ray: one call, made in workers all over a cluster, asked by one driver.

    driver: ask(item) ─► the worker with the least to do ─► call(item) ─► result
                  └─ it died: another one is asked, and another worker takes its place

Only the driver knows what the results are for. Ray is imported with the first pool.
"""

from __future__ import annotations

from ._cluster import NoWorkersLeftError
from ._pool import PoolSize, worker_pool

__all__ = ["NoWorkersLeftError", "PoolSize", "worker_pool"]
