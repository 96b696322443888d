"""What can go wrong with workers of a Ray cluster.

KnowgateError
├── WorkerStartError       a worker could not be started; ends the run
├── NoWorkersLeftError     too many workers died; ends the run
├── WorkerLostError        several workers died over one item; that item has no answer
└── RemoteCallError        a call failed in a worker with an error that cannot travel
"""

from __future__ import annotations

from ...guard import KnowgateError


class WorkerStartError(KnowgateError):
    """A worker could not be started: too few CPUs are free, or its factory failed."""


class NoWorkersLeftError(KnowgateError):
    """All workers died, and as many were replaced as may be."""


class WorkerLostError(KnowgateError):
    """Several workers in a row died while they were at one item."""


class RemoteCallError(KnowgateError):
    """A call failed in a worker with an error that cannot travel to the driver.

    Args:
        error_type: name of its class.
        is_retryable: whether trying again may help.
    """

    def __init__(self, error_type: str, is_retryable: bool) -> None:
        self.error_type, self.is_retryable = error_type, is_retryable
        super().__init__(f"{error_type} in a worker")

    def __reduce__(self) -> tuple[type[RemoteCallError], tuple[str, bool]]:
        return type(self), (self.error_type, self.is_retryable)
