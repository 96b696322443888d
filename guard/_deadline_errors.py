"""How a call under a deadline fails; apart from `deadlines`, which needs asyncio."""

from __future__ import annotations


class DeadlineExceededError(Exception):
    """The call was still running at its deadline."""


class AllWorkersBusyError(Exception):
    """No worker thread became free for the call before its deadline, or all are stuck."""


class QueueFullError(AllWorkersBusyError):
    """Too many texts are waiting for the device that computes a scorer."""


class NoTurnError(AllWorkersBusyError):
    """The call waited for its turn as long as it may."""


class TaskBrokeOffError(Exception):
    """The call ended with `SystemExit` or another exception that asyncio cannot carry."""
