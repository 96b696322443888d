"""Run an application under uvicorn: bounded connections, graceful drain, no user text in the log.

SIGTERM ─► /readyz and new requests 503 ─► those under way end ─► exit
again ───────────────────────────────────────────────────────► exit at once

A connection takes a file descriptor before anything is known of whom it belongs to. So those that
wait, idle or in the middle of a request's headers, have a deadline. Where others have no place,
they are closed, and so are those in the middle of a body. What strangers can make the server log,
it logs once a minute.
"""

from __future__ import annotations

import asyncio
import logging
import math
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from types import FrameType
from typing import Any, cast

import h11
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...guard.errors import InputError
from ._access import Admission, discard_body, is_loopback
from ._bodies import ServeError, as_json

HEADER_SECONDS = 10.0
_KEEP_ALIVE_SECONDS = 30
# Connections that the system holds until they are accepted, all of them in one go.
BACKLOG = 128
_LOG_SECONDS = 60.0
_MOST_MESSAGES = 256
# An address has at most this share of the places, so that others get in, too.
_SHARE_OF_ADDRESS = 0.75
_MOST, _FEWEST, _OTHER_FILES = 4096, 8, 64
_ONE_SIGNAL_SECONDS = 1.0
_FULL = ServeError("too_many_connections")
_NO_HTTP = ServeError("invalid_http")


class BoundedServer(uvicorn.Server):
    """Serves an application on connections that are bounded.

    Args:
        app: what answers.
        admission: of the app, which drains it; None to end it at the first signal.
        seconds: until requests under way are cancelled, and to reject new ones at least.
        settings: further ones of uvicorn.
    """

    # For the application: reads the body of a request that it rejects.
    discard_body = staticmethod(discard_body)

    def __init__(
        self,
        app: ASGIApp,
        admission: Admission | None = None,
        seconds: tuple[float, float] = (0.0, 0.0),
        **settings: Any,
    ) -> None:
        self._admission, self._seconds = admission, seconds
        # When the first signal came.
        self._asked: float | None = None
        config = uvicorn.Config(
            app,
            http=BoundedConnection,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
            ws="none",
            backlog=min(BACKLOG, most_connections()),
            **settings,
        )
        super().__init__(config)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the end; asked for by `run`."""
        rarely = _rarely()
        # asyncio logs each connection that it has no file descriptor for.
        loggers = [logging.getLogger(name) for name in ("asyncio", "uvicorn.error")]
        for logger in loggers:
            logger.addFilter(rarely)
        try:
            await super().serve(sockets)
        finally:
            for logger in loggers:
                logger.removeFilter(rarely)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; at a further signal end without waiting for that."""
        if self._admission is None:
            super().handle_exit(sig, frame)
        elif self._asked is None:
            self._asked = time.monotonic()
            self._admission.draining = True
        # Whoever signals a process group may signal each process of it, too.
        elif time.monotonic() - self._asked > _ONE_SIGNAL_SECONDS:
            self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """End when nothing is under way any more, or it takes too long."""
        if self._asked is not None and self._admission is not None:
            spent, (drain, notice) = time.monotonic() - self._asked, self._seconds
            done = self._admission.idle and spent >= notice
            self.should_exit = self.should_exit or done or spent >= drain
        return await super().on_tick(counter)


def _rarely() -> Callable[[logging.LogRecord], bool]:
    """A filter that logs a message once a minute, with the number of those left out before."""
    told: dict[str, tuple[float, int]] = {}

    def is_logged(record: logging.LogRecord) -> bool:
        message = str(record.msg).partition("\n")[0]
        last, left_out = told.get(message, (-math.inf, 0))
        now = time.monotonic()
        if now - last < _LOG_SECONDS:
            told[message] = last, left_out + 1
            return False
        if len(told) >= _MOST_MESSAGES:
            told.clear()
        told[message] = now, 0
        if left_out:
            record.msg = f"{record.msg} ({left_out} more of these before)"
        return True

    return is_logged


@cache
def most_connections() -> int:
    """How many there may be at once: half of the file descriptors that the process may have.

    The other half is for files, and for the connections to a model behind the proxy.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = (soft - _OTHER_FILES) // 2
    return _MOST if soft == resource.RLIM_INFINITY else max(_FEWEST, min(_MOST, half))


class _OneLength(h11.Connection):
    """Rejects requests that say in two ways how long they are: others may read them otherwise."""

    def next_event(self) -> Any:
        """The next event.

        Raises:
            h11.RemoteProtocolError: what came is no HTTP, or has two lengths.
        """
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("two lengths")
        return event


class BoundedConnection(H11Protocol):
    """One connection of a client to uvicorn."""

    _waits_since: float | None = None
    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.conn = _OneLength(h11.SERVER)

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

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, and close."""
        self._end_with(_NO_HTTP)

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
        """Wait, or no longer; a body that is not there yet has a deadline of its own."""
        if self.cycle is None or self.cycle.response_complete:
            if self._deadline is None:
                self._wait()
        else:
            self._stop_deadline()
            if not self.cycle.more_body:
                self._waits_since = None

    def _wait(self) -> None:
        self._waits_since = self.loop.time()
        seconds = max(HEADER_SECONDS, self.timeout_keep_alive if self.cycle is not None else 0.0)
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        self._waits_since = None
        self._stop_deadline()

    def _stop_deadline(self) -> None:
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
            self._end_with(_FULL)

    def _end_with(self, error: ServeError) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            # In the middle of a response.
            self.transport.close()
            return
        body = as_json(error.body)
        head = (
            f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
            "Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()


def bound_socket(host: str, port: int, *, has_token: bool) -> socket.socket:
    """A socket that listens there.

    Args:
        host: name or address.
        port: 0 for any that is free.
        has_token: whether requests must bear a token.

    Raises:
        InputError: the host is not the local machine, and there is no token.
        OSError: the address cannot be had.
    """
    if not has_token and not is_loopback(host):
        what = "listens to other machines, which needs a token"
        hint = "set KNOWGATE_TOKEN to a long random text, or leave --host out"
        raise InputError(what, where="--host", hint=hint)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        fault = f"cannot listen: {error.strerror}"
        raise InputError(fault, where=f"{host}:{port}", hint="choose another port") from None
    return listening


def serve(
    app: FastAPI,
    listening: socket.socket,
    *,
    drain_seconds: float = 30.0,
    notice_seconds: float = 0.0,
) -> None:
    """Serve until SIGTERM or SIGINT, then let the requests under way end.

    Args:
        app: of `create_app`.
        listening: of `bound_socket`.
        drain_seconds: until requests under way are cancelled.
        notice_seconds: how long new requests get 503 before the end, even if none is under
            way, so that a load balancer sees it.
    """
    seconds = (drain_seconds, notice_seconds)
    BoundedServer(app, app.state.admission, seconds, log_level="warning").run([listening])
