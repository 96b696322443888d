"""Options that say how calls are made; none of them decides what is asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ...adapters.ray import PoolSize
from ...guard.errors import InputError
from ..run import CallLimits, RayPool


class EngineName(StrEnum):
    """Where calls are made."""

    LOCAL = "local"
    RAY = "ray"


@dataclass(frozen=True, slots=True)
class CallOptions:
    """How calls are made, as given on the command line; None for what was not given."""

    engine: EngineName | None = None
    workers: int | None = None
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
            in_flight = max(1, self.limits().max_concurrency // workers)
            return RayPool(PoolSize(workers=workers, in_flight=in_flight), self.ray_address)
        for name in ("workers", "ray_address"):
            if getattr(self, name) is not None:
                raise InputError(
                    "goes with --engine ray only",
                    where=f"--{name.replace('_', '-')}",
                    hint="leave it out",
                )
        return None
