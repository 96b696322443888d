"""Connections of a page: few that wait at once, and none that waits for ever."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol


class BoundedProtocol(H11Protocol):
    """HTTP with a deadline for the head of a request, and a bound on waiting connections.

    A new connection above the bound replaces the one that has waited longest for a request.
    """

    head_seconds: ClassVar = 60.0
    most_waiting: ClassVar = 32

    _since: float | None = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._work()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Stop waiting once the head of a request is there."""
        super().data_received(data)
        if self._is_working():
            self._work()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not (self.transport.is_closing() or self._is_working()):
            self._wait()

    def _is_working(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._work()
        self._since = self.loop.time()
        self._timer = self.loop.call_later(self.head_seconds, self._give_up)
        waiting = [
            (one._since, number, one)
            for number, one in enumerate(self.connections)
            if isinstance(one, BoundedProtocol) and one._since is not None
        ]
        if len(waiting) > self.most_waiting:
            min(waiting)[2]._give_up()

    def _work(self) -> None:
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._work()
        self.transport.close()
