"""Options that say how calls are made; none of them decides what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from ...adapters.ray import PoolSize
from ...guard.errors import InputError
from ..run import CallLimits, RayPool


class EngineName(StrEnum):
    """Where calls are made."""

    LOCAL = "local"
    RAY = "ray"


RAY_OPTIONS: Mapping[str, tuple[Any, str, str]] = MappingProxyType(
    {
        "engine": (EngineName, "--engine", "local or ray."),
        "workers": (int | None, "--workers", "ray: processes.  [default: 2]"),
        "cpus_per_worker": (float | None, "--cpus-per-worker", "ray: CPUs of each.  [default: 1]"),
        "gpus_per_worker": (float | None, "--gpus-per-worker", "ray: GPUs of each.  [default: 0]"),
        "ray_address": (str | None, "--ray-address", "ray: of a running cluster."),
    }
)
"""Field of `CallOptions` → type, option and help."""


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How calls are made, as given on the command line; None for what was not given."""

    engine: EngineName | None = None
    workers: int | None = None
    cpus_per_worker: float | None = None
    gpus_per_worker: float | None = None
    ray_address: str | None = None
    concurrency: int | None = None
    rate: float | None = None
    timeout: float | None = None
    max_attempts: int | None = None

    def limits(self) -> CallLimits:
        """Return the limits, with defaults for what was not given."""
        given: dict[str, Any] = {
            "max_concurrency": self.concurrency,
            "rate": self.rate,
            "timeout": self.timeout,
            "max_attempts": self.max_attempts,
        }
        return CallLimits(**{name: value for name, value in given.items() if value is not None})

    def pool(self) -> RayPool | None:
        """Return the workers of `--engine ray`, None for local calls.

        Raises:
            InputError: an option is given that needs `--engine ray`.
        """
        if self.engine is EngineName.RAY:
            workers = self.workers or 2
            size = PoolSize(
                workers=workers,
                in_flight=max(1, self.limits().max_concurrency // workers),
                cpus_per_worker=1.0 if self.cpus_per_worker is None else self.cpus_per_worker,
                gpus_per_worker=self.gpus_per_worker or 0.0,
            )
            return RayPool(size, self.ray_address)
        for name in RAY_OPTIONS:
            if name != "engine" and getattr(self, name) is not None:
                raise InputError(
                    "goes with --engine ray only",
                    where=RAY_OPTIONS[name][1],
                    hint="leave it out",
                )
        return None
