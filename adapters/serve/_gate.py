"""What every request passes first: host, token, limits, and a watch on the client.

    request ─► host or token ─► draining? full? ─► body, bounded ─► a free place ─► endpoint
                                                                     └ client gone: cancelled

Written against ASGI itself, because a body must be counted while it arrives, and an endpoint
cancelled when its client has gone.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import time
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ._admission import Admission, BodyShare, ServeLimits, draining
from ._errors import ServeError, reply_to
from ._http_metrics import HTTPMetrics
from ._unread import discard_body

_logger = logging.getLogger("knowgate.serve")

# Asked by orchestrators, who have no token.
_HEALTH = frozenset({"/healthz", "/readyz"})
_WORK = "/v1/"
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
# A rejected request that declares a longer body is replied to at once.
_LONGEST_REJECTED = 1 << 18


class _GoneError(Exception):
    """The client has closed the connection."""


class Gate:
    """ASGI middleware in front of all endpoints.

    Args:
        app: what answers.
        admission: counts and bounds requests below `/v1/`.
        limits: of bodies.
        token: that requests must bear; without one only the local machine is answered.
        metrics: count the responses.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        admission: Admission,
        limits: ServeLimits,
        token: str | None,
        metrics: HTTPMetrics,
    ) -> None:
        self._app, self._admission, self._limits = app, admission, limits
        self._token = None if token is None else token.encode("utf-8")
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            await self._request(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
            await send(message)

        path: str = scope["path"]
        endpoint = self._metrics.endpoint(path)
        body = _Body(receive)
        try:
            self._check_sender(scope)
            if path.startswith(_WORK):
                await self._work(scope, body.receive, answer)
            else:
                await self._app(scope, body.receive, answer)
        except _GoneError:
            pass
        except ServeError as error:
            await body.discard(scope)
            await reply_to(error)(scope, receive, answer)
        except asyncio.CancelledError:
            if status or not self._admission.draining:
                raise
            await reply_to(draining())(scope, receive, answer)
        except Exception as error:  # noqa: BLE001 - its text may be a user's
            _logger.error("%s raised %s", endpoint, type(error).__name__)
            if not status:
                failure = ServeError(500, "internal_error", "The request failed.")
                await reply_to(failure)(scope, receive, answer)
        finally:
            status = status or 499  # nobody is there any more; the number is that of nginx
            self._metrics.count(path, status)
            spent = (time.perf_counter() - started) * 1000
            _logger.info("%s %d %.1f ms", endpoint, status, spent)

    def _check_sender(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self._token is None:
            client = scope.get("client")
            here = client is None or is_loopback(str(client[0]))
            # The host too: another page of a browser may have a name that leads here.
            if not here or not is_loopback(_host(headers.get(b"host", b""))):
                message = "Without a token only the local machine is answered."
                raise ServeError(403, "not_local", message)
        elif scope["path"] not in _HEALTH:
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            right = hmac.compare_digest(given.strip(), self._token)
            if kind.lower() != b"bearer" or not right:
                message = "Give the token of this server as `Authorization: Bearer TOKEN`."
                headers_back = {"WWW-Authenticate": "Bearer"}
                raise ServeError(401, "wrong_token", message, headers=headers_back)

    async def _work(self, scope: Scope, receive: Receive, send: Send) -> None:
        share = BodyShare(self._admission)
        try:
            async with self._admission.entered():
                self._show()
                body = await _read(scope, receive, self._limits, share)
                gone = asyncio.ensure_future(_disconnected(receive))
                work = asyncio.ensure_future(self._in_turn(scope, _replay(body, gone), send))
                await _unless(gone, work)
        finally:
            share.free()
            self._show()

    async def _in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._admission.working():
            self._show()
            await self._app(scope, receive, send)

    def _show(self) -> None:
        self._metrics.show(running=self._admission.running, waiting=self._admission.waiting)


class _Body:
    """Knows whether a request's body has been asked for.

    Args:
        receive: of the request.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._untouched = True

    async def receive(self) -> Message:
        """Return the next message of the request."""
        self._untouched = False
        return await self._receive()

    async def discard(self, scope: Scope) -> None:
        """Read the body of a request that was rejected without reading it, if it is short."""
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        short = declared.isdigit() and int(declared[:20]) <= _LONGEST_REJECTED
        # A client that sends `Expect` waits for the status before its body.
        if self._untouched and short and b"expect" not in headers:
            await discard_body(self._receive)


def is_loopback(host: str) -> bool:
    """Whether a host is the local machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host(header: bytes) -> str:
    """The host in a `Host` header, without its port."""
    text = header.decode("latin-1").strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


async def _read(scope: Scope, receive: Receive, limits: ServeLimits, share: BodyShare) -> bytes:
    """The whole body.

    Raises:
        ServeError: it is too large, alone or with others, or does not arrive in time.
        _GoneError: the client has gone.
    """
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    too_large = ServeError(
        413,
        "body_too_large",
        f"The body has more than {limits.body_bytes} bytes.",
        headers={"Connection": "close"},
    )
    if not declared.isdigit() or int(declared[:20]) > limits.body_bytes:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _GoneError
                part = message.get("body", b"")
                size += len(part)
                if size > limits.body_bytes:
                    raise too_large
                share.grow(size)
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        late = "The body did not arrive in time."
        raise ServeError(408, "body_too_late", late, headers={"Connection": "close"}) from None


async def _unless(gone: asyncio.Future[None], work: asyncio.Future[None]) -> None:
    """Wait for `work`; cancel it when the client has gone, or nobody waits any more.

    Raises:
        _GoneError: the client has gone.
    """
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise _GoneError
        await work
    finally:
        for task in (work, gone):
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def _disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _replay(body: bytes, gone: asyncio.Future[None]) -> Receive:
    """A receive channel that gives the body, and then only that the client has gone."""
    left = [body]

    async def receive() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        await asyncio.shield(gone)
        return {"type": "http.disconnect"}

    return receive
