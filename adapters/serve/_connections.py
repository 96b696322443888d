"""Connections that ask nothing: bounded in number and time, and the first to go.

A connection takes a file descriptor before anything is known of whom it belongs to. So those that
wait, idle or in the middle of a request's headers, are closed where others have no place.
"""

from __future__ import annotations

import asyncio
import resource
from collections import Counter
from functools import cache
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
# An address has at most this share of the places, so that others get in, too.
_SHARE_OF_ADDRESS = 0.75
_MOST, _FEWEST, _OTHER_FILES = 4096, 8, 64
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


@cache
def most_connections() -> int:
    """How many there may be at once: half of the file descriptors that the process may have.

    The other half is for files, and for the connections to a model behind the proxy.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST
    return max(_FEWEST, min(_MOST, (soft - _OTHER_FILES) // 2))


class BoundedConnection(H11Protocol):
    """One connection of a client to uvicorn."""

    _waits_since: float | None = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, of a connection that waits where all are taken."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) <= _SHARE_OF_ADDRESS * most_connections():
            return
        others = [cast(BoundedConnection, one) for one in self.connections if one is not self]
        of_address = [one for one in others if one._address == self._address]
        if len(of_address) >= _SHARE_OF_ADDRESS * most_connections():
            self._take_place_among(of_address)
        elif len(others) >= most_connections():
            held = Counter(one._address for one in others)
            most = max(held.values())
            self._take_place_among([one for one in others if held[one._address] == most])

    def data_received(self, data: bytes) -> None:
        """Read what came; until the headers of a request are there, the deadline stands."""
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._note()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _address(self) -> str:
        return "" if self.client is None else self.client[0]

    def _note(self) -> None:
        """Wait, or no longer."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._waits_since is None:
            self._wait()

    def _wait(self) -> None:
        self._waits_since = self.loop.time()
        seconds = max(HEADER_SECONDS, self.timeout_keep_alive if self.cycle is not None else 0.0)
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        self._waits_since = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _take_place_among(self, others: list[BoundedConnection]) -> None:
        """End the one of them that has waited longest; where none waits, this one."""
        waiting = [one for one in others if one._waits_since is not None]
        if waiting:
            longest = min(waiting, key=lambda one: one._waits_since or 0.0)
            # Leaves the set when the loop comes to it; until then it must not be taken again.
            longest._stop_waiting()
            self.connections.discard(longest)
            longest.transport.abort()
        else:
            self.transport.write(_FULL)
            self.transport.close()
