"""Serve the labelling page on loopback, under a secret address."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import secrets
import socket
import sys
import threading
import time
import traceback
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from ....guard.errors import InputError
from ._page import render_page
from ._session import LabelSession, NotAskedError

_LOG = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
_LONGEST_BODY = 64 * 1024
_HOST = re.compile(r"(?:127\.0\.0\.1|localhost)(?::\d{1,5})?")


class LabelServer:
    """Serves one session at `url` until it is closed.

    Only loopback is listened on. The address holds a secret made anew for each server, and
    requests that name another host or come from another page are rejected, so that neither
    other users of the machine nor pages open in the same browser can read or label.

    Args:
        session: of one annotator.
        port: to listen on; a free one with 0.

    Raises:
        InputError: the port cannot be had.

    Example:
        with LabelServer(session) as server:
            print(server.url)
            server.serve_forever()
    """

    def __init__(self, session: LabelSession, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        token = self.token

        class Handler(_Handler):
            pass

        Handler.session, Handler.token = session, token
        try:
            self._server = _Server((_LOOPBACK, port), Handler)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"cannot be listened on ({getattr(error, 'strerror', None) or error})",
                where=f"--port {port}",
                hint="choose another one, or leave it out",
            ) from None

    @property
    def url(self) -> str:
        """The address of the page, with its secret."""
        return f"http://{_LOOPBACK}:{self._server.server_address[1]}/{self.token}/"

    def serve_forever(self) -> None:
        """Answer requests, each in its own thread, until `stop` or an interrupt."""
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        """End `serve_forever`, called from another thread."""
        self._server.shutdown()

    def close(self) -> None:
        """Stop listening."""
        self._server.server_close()

    def __enter__(self) -> LabelServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    """A server with a bounded number of connections; a new one replaces the longest waiting."""

    daemon_threads = True
    most_connections = 32
    # Two servers on one port would share annotators between them by chance.
    allow_reuse_port = False
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], handler: type[_Handler]) -> None:
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._open = 0
        # Those that have sent no whole request, the longest waiting first.
        self._waiting: dict[socket.socket, None] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread of its own, if there is room."""
        with self._lock:
            self._open += 1
            waited = None
            if self._open > self.most_connections and self._waiting:
                waited = next(iter(self._waiting))
                del self._waiting[waited]
            # From here on: its thread may begin much later.
            self._waiting[request] = None
        if waited is not None:
            with contextlib.suppress(OSError):
                waited.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and ends
        with self._lock:
            # Connections that were just ended still have their threads for a moment.
            has_room = self._ended.wait_for(
                lambda: self._open <= 2 * self.most_connections, timeout=10.0
            )
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._open -= 1
            self._waiting.pop(request, None)
            self._ended.notify()
        super().shutdown_request(request)

    def wait_for(self, connection: socket.socket) -> None:
        """Record that a connection waits for its next request."""
        with self._lock:
            self._waiting[connection] = None

    def work_for(self, connection: socket.socket) -> None:
        """Record that a connection has; it is not ended for another one.

        Raises:
            ConnectionResetError: it was ended already.
        """
        with self._lock:
            if self._waiting.pop(connection, self) is self:
                raise ConnectionResetError

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that hangs up is no event; of a fault of ours only the place is told."""
        error = sys.exception()
        if error is None or isinstance(error, OSError):
            return
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        # Its message could hold what was labelled.
        _LOG.error("labelling page: %s in %s", type(error).__name__, place)


class _RejectedError(Exception):
    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class _TimedReads(io.RawIOBase):
    """Reads from a connection until a deadline, however slowly the bytes come."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__()
        self._connection = connection
        self.deadline = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    session: LabelSession
    token: str
    protocol_version = "HTTP/1.1"
    server_version = "knowgate"
    sys_version = ""
    # Seconds until a whole request has come, until an answer is taken, and of a connection.
    request_seconds = 60.0
    answer_seconds = 60.0
    connection_seconds = 600.0

    def setup(self) -> None:
        """Read under a deadline."""
        super().setup()
        self.rfile.close()
        self._ends = time.monotonic() + self.connection_seconds
        self._reads = _TimedReads(self.connection)
        self.rfile = io.BufferedReader(self._reads)

    def handle_one_request(self) -> None:
        """Serve the next request if it comes in time."""
        self._reads.deadline = min(time.monotonic() + self.request_seconds, self._ends)
        super().handle_one_request()
        if not self.close_connection:
            self.server.wait_for(self.connection)

    def do_GET(self) -> None:
        """The page, how far it is, one reply, or its context."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """A label, a skipped reply, a note, or taking the last one back."""
        self._answer(self._post)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: addresses hold the secret."""

    def _answer(self, action: Any) -> None:
        try:
            self._require_our_page()
            action()
        except _RejectedError as rejected:
            # What is left of a rejected body would be read as the next request.
            self.close_connection = True
            self._send_json({"error": rejected.message}, rejected.status)
        except IndexError:
            self._send_json({"error": "no such reply"}, HTTPStatus.NOT_FOUND)
        except NotAskedError as error:
            self._send_json({"error": str(error)}, HTTPStatus.CONFLICT)
        except InputError as error:
            self._send_json({"error": str(error)}, HTTPStatus.INTERNAL_SERVER_ERROR)

    def _get(self) -> None:
        path = self._path()
        self.server.work_for(self.connection)
        if path == "":
            self._send_page()
        elif path == "state":
            self._send_json(self.session.state())
        elif found := re.fullmatch(r"replies/(\d{1,9})", path):
            self._send_json(self.session.item(int(found[1])))
        elif found := re.fullmatch(r"replies/(\d{1,9})/context", path):
            self._send_json({"passages": self.session.context(int(found[1]))})
        else:
            raise _RejectedError(HTTPStatus.NOT_FOUND, "no such page")

    def _post(self) -> None:
        path, body = self._path(), self._body()
        self.server.work_for(self.connection)
        note = body.get("note")
        if not (note is None or isinstance(note, str)):
            raise _RejectedError(HTTPStatus.BAD_REQUEST, "the note is no text")
        if path == "undo":
            self._send_json(self.session.undo())
            return
        found = re.fullmatch(r"replies/(\d{1,9})/(label|skip|note)", path)
        if found is None:
            raise _RejectedError(HTTPStatus.NOT_FOUND, "no such page")
        position, action = int(found[1]), found[2]
        if action == "skip":
            self._send_json(self.session.skip(position, note))
        elif action == "note":
            self._send_json(self.session.note(position, note or ""))
        else:
            criterion, outcome = body.get("criterion"), body.get("outcome")
            if not (isinstance(criterion, str) and isinstance(outcome, str)):
                raise _RejectedError(HTTPStatus.BAD_REQUEST, "criterion and outcome are needed")
            self._send_json(self.session.label(position, criterion, outcome, note))

    def _require_our_page(self) -> None:
        """Reject other sites' pages (even with a host name that they point here)."""
        hosts = self.headers.get_all("Host", [])
        host = hosts[0] if len(hosts) == 1 else ""
        if not _HOST.fullmatch(host):
            raise _RejectedError(HTTPStatus.FORBIDDEN, "this address is not served here")
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            raise _RejectedError(HTTPStatus.FORBIDDEN, "other pages may not ask here")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise _RejectedError(HTTPStatus.FORBIDDEN, "other pages may not ask here")

    def _path(self) -> str:
        """What follows the secret in the path."""
        token, slash, rest = self.path.lstrip("/").partition("/")
        known = secrets.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        if not (known and slash):
            raise _RejectedError(HTTPStatus.NOT_FOUND, "no such page")
        return rest

    def _body(self) -> dict[str, Any]:
        # No form of another page can send this type without asking first.
        if self.headers.get_content_type() != "application/json":
            raise _RejectedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected JSON")
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"\d{1,9}", length):
            raise _RejectedError(HTTPStatus.LENGTH_REQUIRED, "Content-Length is needed")
        if int(length) > _LONGEST_BODY:
            raise _RejectedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too long")
        data = self.rfile.read(int(length))
        if len(data) < int(length):
            raise _RejectedError(HTTPStatus.BAD_REQUEST, "the request was cut off")
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise _RejectedError(HTTPStatus.BAD_REQUEST, "expected a JSON object")
        return value

    def _send_page(self) -> None:
        nonce = secrets.token_urlsafe(18)
        text = render_page(
            annotator=self.session.annotator,
            criteria=self.session.criteria,
            settles=self.session.settles,
            nonce=nonce,
        )
        policy = (
            f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
            "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        self._send(text.encode("utf-8"), "text/html; charset=utf-8", HTTPStatus.OK, policy)

    def _send_json(self, value: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(json.dumps(value).encode("ascii"), "application/json", status)

    def _send(
        self, body: bytes, kind: str, status: HTTPStatus, policy: str = "default-src 'none'"
    ) -> None:
        if self._ends - time.monotonic() < self.request_seconds:
            self.close_connection = True
        self.connection.settimeout(self.answer_seconds)
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", policy),
            ("Cache-Control", "no-store"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "same-origin"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
        ):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
