"""Serve pages on loopback, under an address with a token."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import signal
import threading
import traceback
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...adapters.serve import BoundedServer, bound_socket, replay
from ...guard.files import table_beside

_LOG = logging.getLogger(__name__)
_HOST = re.compile(r"(?:127\.0\.0\.1|localhost)(?::\d{1,5})?")
_LONGEST_BODY = 64 * 1024
_BODY_SECONDS = 60.0
# Of every answer.
_TEXTS: dict[str, str] = table_beside(__file__, "headers.toml")
_HEADERS = [(name.encode(), text.encode()) for name, text in _TEXTS.items()]
_STRANGER = "Open the address that the command printed: it holds the token of this page."


class Gate:
    """ASGI middleware in front of all pages.

    Args:
        app: what answers.
        token: in the first address; a cookie holds it from then on.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        begun, unread = False, True

        async def answer(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        async def fail(status: int, message: str) -> None:
            # What is left of a rejected body would be read as the next request.
            found = JSONResponse({"error": message}, status, {"connection": "close"})
            await found(scope, receive, answer)

        request = Request(scope, receive)
        try:
            _require_our_page(request)
            opened = self._opened(request)
            if opened is not None:
                await opened(scope, receive, answer)
                return
            if request.method == "POST":
                _require_short_json(request)
                unread = False
                receive = replay(await _body(request), receive)
            unread = False
            await self._app(scope, receive, answer)
        except HTTPException as rejected:
            if unread:
                await BoundedServer.discard_body(receive)
            await fail(rejected.status_code, rejected.detail)
        except Exception as error:  # noqa: BLE001 - its text may be a user's
            _log_fault(error)
            if not begun:
                await fail(500, "The request failed; see the terminal.")

    def _opened(self, request: Request) -> Response | None:
        """Return what sets the cookie, to an address with the token; None with the cookie.

        Raises:
            HTTPException: there is neither.
        """
        query = request.query_params.multi_items()
        given = [value for name, value in query if name == "token"]
        # Cookies of one host are shared by all its ports.
        name = f"knowgate-{(request.scope.get('server') or ('', 0))[1]}"
        if given and request.method == "GET" and self._is_token(given[0]):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            # No second slash at the beginning: that would be another host.
            place = "/" + quote(request.scope["path"].lstrip("/"), safe="/")
            cookie = f"{name}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            to = place + ("?" + rest if rest else "")
            return Response(status_code=303, headers={"location": to, "set-cookie": cookie})
        if not self._is_token(request.cookies.get(name, "")):
            raise HTTPException(403, _STRANGER)
        return None

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode("utf-8", "replace"), self._token.encode())


def _require_our_page(request: Request) -> None:
    """Reject other sites' pages, even with a host name that they point here."""
    values = request.headers.getlist
    hosts = values("host")
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
        raise HTTPException(403, "this address is not served here")
    others = {*values("origin")} - {f"http://{hosts[0]}"}
    if others or {*values("sec-fetch-site")} - {"none", "same-origin"}:
        raise HTTPException(403, "other pages may not ask here")


def _require_short_json(request: Request) -> None:
    """Reject a body that is no JSON, or too long."""
    values = request.headers.getlist
    # No form of another page can send this type without asking first.
    kinds = [kind.partition(";")[0].strip() for kind in values("content-type")]
    if kinds != ["application/json"]:
        raise HTTPException(415, "expected JSON")
    lengths = values("content-length")
    if len(lengths) != 1 or not re.fullmatch(r"[0-9]{1,9}", lengths[0]):
        raise HTTPException(411, "Content-Length is needed")
    if int(lengths[0]) > _LONGEST_BODY:
        raise HTTPException(413, "too long")


async def _body(request: Request) -> bytes:
    """The whole body of a request.

    Raises:
        HTTPException: it does not arrive whole and in time.
    """
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await request.body()
    except ClientDisconnect:
        raise HTTPException(400, "the request was cut off") from None
    except TimeoutError:
        raise HTTPException(408, "the request did not arrive in time") from None


def _log_fault(error: Exception) -> None:
    """Tell only the place of a fault of ours: its message could hold what a user wrote."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    _LOG.error("page: %s in %s", type(error).__name__, place)


_LOOPBACK = "127.0.0.1"


class PageServer:
    """Serves pages at `url` until the context ends.

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
            KeyboardInterrupt: after Ctrl-C, or the end of the terminal, once requests have ended.
        """
        before, hung_up = signal.getsignal(signal.SIGHUP), threading.Event()

        def end(_number: int, _frame: FrameType | None) -> None:
            hung_up.set()
            self.stop()

        # A closed terminal ends as Ctrl-C does: requests under way are answered.
        with ExitStack() as restored:
            main = threading.current_thread() is threading.main_thread()
            if main and before is not signal.SIG_IGN:  # as by nohup
                restored.callback(signal.signal, signal.SIGHUP, before)
                signal.signal(signal.SIGHUP, end)
            self._server.run(sockets=[self._listening])
        if hung_up.is_set():
            if not callable(before):
                raise KeyboardInterrupt
            signal.raise_signal(signal.SIGHUP)

    def stop(self) -> None:
        """End `serve_forever`, called from another thread."""
        self._server.should_exit = True

    def __enter__(self) -> PageServer:
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop listening."""
        self._listening.close()
