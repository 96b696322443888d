"""A cluster on this machine for programs of tests."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from knowgate.adapters.ray.cluster import ray_cluster


def local_cluster() -> AbstractContextManager[Any]:
    """The module `ray`, connected to a new cluster with two CPUs."""
    return ray_cluster(None, 2)
