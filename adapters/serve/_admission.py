"""How many requests are let in: those under way, those that wait, none while draining."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields

from ...guard.errors import InputError
from ._errors import ServeError


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """The most that the service takes; limits of questions and passages are the guard's.

    Attributes:
        concurrency: requests worked on at once.
        queue: requests that wait for that; further ones get 429.
        queue_seconds: that a request waits at most; then it gets 429 too.
        body_bytes: of one request; larger ones get 413 before they are read.
        body_seconds: until the body of a request has arrived.
        bodies_bytes: of all requests under way together, those of up to 64 KiB aside; beyond, a
            request gets 503 while its body arrives.
        batch: questions in one request to `/v1/decide/batch`.

    Raises:
        InputError: a limit is not positive.
    """

    concurrency: int = 1024
    queue: int = 1024
    queue_seconds: float = 10.0
    body_bytes: int = 8 * 2**20
    body_seconds: float = 30.0
    bodies_bytes: int = 128 * 2**20
    batch: int = 256

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) <= 0 and one.name != "queue":
                raise InputError("must be positive", where=one.name)
        if self.queue < 0:
            raise InputError("must not be negative", where="queue")


# A body of that size is held in any case: connections are bounded, too.
_SMALL_BODY = 1 << 16


class BodyShare:
    """What one request holds of the bytes for all bodies."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._held = 0

    def grow(self, size: int) -> None:
        """Hold so many bytes in all.

        Raises:
            ServeError: the bodies of all requests together are too large.
        """
        wanted = size if size > _SMALL_BODY else 0
        self._admission.hold(wanted - self._held)
        self._held = wanted

    def free(self) -> None:
        """Hold nothing any more."""
        self._admission.hold(-self._held)
        self._held = 0


class Admission:
    """Counts requests and keeps them within limits; belongs to one event loop.

    Args:
        limits: how many there may be.

    Attributes:
        draining: whether new requests are rejected, because the server is about to end.
    """

    def __init__(self, limits: ServeLimits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._admitted = self._running = self._held = 0
        self.draining = False

    @property
    def running(self) -> int:
        """Requests that are worked on."""
        return self._running

    @property
    def waiting(self) -> int:
        """Requests that were let in and are not worked on yet."""
        return self._admitted - self._running

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return not self._admitted

    def hold(self, more: int) -> None:
        """Count bytes of bodies.

        Raises:
            ServeError: there are too many.
        """
        if more > 0 and self._held + more > self._limits.bodies_bytes:
            raise ServeError(
                503,
                "bodies_too_large",
                "The bodies of all requests together are too large.",
                headers={"Retry-After": "1", "Connection": "close"},
            )
        self._held += more

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Let a request in for the length of the block.

        Raises:
            ServeError: there are too many, or the server is draining.
        """
        if self.draining:
            raise draining()
        if self._admitted >= self._limits.concurrency + self._limits.queue:
            raise _full()
        self._admitted += 1
        try:
            yield
        finally:
            self._admitted -= 1

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Wait until the request may be worked on, and hold its place for the block.

        Raises:
            ServeError: it has waited too long.
        """
        try:
            async with asyncio.timeout(self._limits.queue_seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise _full() from None
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            self._slots.release()


def draining() -> ServeError:
    """What a request gets that the server does not answer because it ends."""
    return ServeError(
        503,
        "draining",
        "The server is about to end; ask another one.",
        headers={"Retry-After": "1", "Connection": "close"},
    )


def _full() -> ServeError:
    message = "Too many requests are under way."
    return ServeError(429, "queue_full", message, headers={"Retry-After": "1"})
