"""Run an application under uvicorn: graceful drain, no text of users in the log.

SIGTERM ─► /readyz and new requests 503 ─► those under way end ─► exit
again ───────────────────────────────────────────────────────► exit at once
"""

from __future__ import annotations

import socket
import time
from types import FrameType

from fastapi import FastAPI

from ...guard.errors import InputError
from ._admission import Admission
from ._connections import BACKLOG, BoundedServer
from ._gate import is_loopback

_ONE_SIGNAL_SECONDS = 1.0


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
        raise InputError(
            "listens to other machines, which needs a token",
            where="--host",
            hint="set KNOWGATE_TOKEN to a long random text, or leave --host out",
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise InputError(
            f"cannot listen: {error.strerror}", where=f"{host}:{port}", hint="choose another port"
        ) from None
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
    _Server(app, drain_seconds, notice_seconds).run([listening])


class _Server(BoundedServer):
    def __init__(self, app: FastAPI, drain: float, notice: float) -> None:
        super().__init__(app, log_level="warning")
        self._admission: Admission = app.state.admission
        self._drain, self._notice = drain, notice
        self._asked: float | None = None  # when the first signal came

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain; at a further signal end without waiting for that."""
        if self._asked is None:
            self._asked = time.monotonic()
            self._admission.draining = True
        # Whoever signals a process group may signal each process of it, too.
        elif time.monotonic() - self._asked > _ONE_SIGNAL_SECONDS:
            self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """End when nothing is under way any more, or it takes too long."""
        if self._asked is not None:
            spent = time.monotonic() - self._asked
            done = self._admission.idle and spent >= self._notice
            self.should_exit = self.should_exit or done or spent >= self._drain
        return await super().on_tick(counter)
