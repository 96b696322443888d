"""Ray: one call, made in workers all over a cluster, asked by one driver.

    driver: ask(item) ─► the worker with the least to do ─► call(item) ─► result
                  └─ it died: another one is asked, and another worker takes its place

Only the driver knows what the results are for. Ray is imported with the first pool.
"""

from __future__ import annotations

from ._cluster import ray_cluster
from ._errors import NoWorkersLeftError, RemoteCallError, WorkerLostError, WorkerStartError
from ._pool import PoolSize, WorkerPool, worker_pool

__all__ = [
    "NoWorkersLeftError",
    "PoolSize",
    "RemoteCallError",
    "WorkerLostError",
    "WorkerPool",
    "WorkerStartError",
    "ray_cluster",
    "worker_pool",
]
