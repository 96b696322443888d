"""Serve pages on loopback, under an address with a token."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

from starlette.types import ASGIApp

from ...adapters.serve import BoundedServer, bound_socket
from ._gate import Gate

_LOOPBACK = "127.0.0.1"


class PageServer:
    """Serves pages at `url` until it is closed.

    Only loopback is listened on. The address holds a token made anew for each server; the
    browser keeps it in a cookie, so that links between pages do not show it.

    Args:
        app: the pages.
        port: to listen on; a free one with 0.

    Raises:
        InputError: the port cannot be had.

    Example:
        with PageServer(app) as server:
            print(server.url)
            server.serve_forever()
    """

    def __init__(self, app: ASGIApp, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        self._listening = bound_socket(_LOOPBACK, port, has_token=True)
        self._server = BoundedServer(
            Gate(app, self.token), log_config=None, log_level="critical", lifespan="off"
        )

    @property
    def url(self) -> str:
        """The address of the first page, with its token."""
        return f"http://{_LOOPBACK}:{self._listening.getsockname()[1]}/?token={self.token}"

    def serve_forever(self) -> None:
        """Answer requests until `stop` or an interrupt.

        Raises:
            KeyboardInterrupt: after Ctrl-C, once the requests under way have ended.
        """
        with _hangup_ends(self._server):
            self._server.run(sockets=[self._listening])

    def stop(self) -> None:
        """End `serve_forever`, called from another thread."""
        self._server.should_exit = True

    def close(self) -> None:
        """Stop listening."""
        self._listening.close()

    def __enter__(self) -> PageServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@contextmanager
def _hangup_ends(server: BoundedServer) -> Iterator[None]:
    """End a server whose terminal was closed as after Ctrl-C: requests under way are answered."""
    before = signal.getsignal(signal.SIGHUP)
    main = threading.current_thread() is threading.main_thread()
    if not main or before is signal.SIG_IGN:  # as by nohup
        yield
        return
    caught: list[tuple[int, FrameType | None]] = []

    def end(number: int, frame: FrameType | None) -> None:
        caught.append((number, frame))
        server.should_exit = True

    signal.signal(signal.SIGHUP, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
    if caught and callable(before):
        before(*caught[0])
    elif caught:
        raise KeyboardInterrupt
