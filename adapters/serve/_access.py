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
import os
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic import ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass as checked_dataclass
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...guard.read_models import CheckedSettings
from ._bodies import ServeError, reply_to

_logger = logging.getLogger("knowgate.serve")

# Asked by orchestrators, who have no token.
_HEALTH = frozenset({"/healthz", "/readyz"})
_SMALL_BODY = 1 << 16
_WORK = "/v1/"
_HEADERS = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
# A rejected request that declares a longer body is replied to at once, and no more is read of one.
_LONGEST_REJECTED, _DISCARD_SECONDS = 1 << 18, 1.0


# -- how many there may be ----------------------------------------------------------------------


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ServeLimits(CheckedSettings):
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

    concurrency: PositiveInt = 1024
    queue: NonNegativeInt = 1024
    queue_seconds: PositiveFloat = 10.0
    body_bytes: PositiveInt = 8 * 2**20
    body_seconds: PositiveFloat = 30.0
    bodies_bytes: PositiveInt = 128 * 2**20
    batch: PositiveInt = 256


class Admission:
    """Counts requests and keeps them within limits; belongs to one event loop.

    Args:
        limits: how many there may be.

    Attributes:
        limits: likewise.
        running: requests that are worked on.
        draining: whether new requests are rejected, because the server is about to end.
    """

    def __init__(self, limits: ServeLimits) -> None:
        self.limits = limits
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._admitted = self.running = self._held = 0
        self.draining = False

    @property
    def waiting(self) -> int:
        """Requests that were let in and are not worked on yet."""
        return self._admitted - self.running

    @property
    def idle(self) -> bool:
        """Whether no request is under way."""
        return not self._admitted

    def hold(self, before: int, now: int) -> int:
        """Count the bytes of a body that has grown; returns those that are held of it.

        Raises:
            ServeError: there are too many.
        """
        # A small body is held in any case: connections are bounded, too.
        now = now if now > _SMALL_BODY else 0
        more = now - before
        if more > 0 and self._held + more > self.limits.bodies_bytes:
            raise ServeError("bodies_too_large")
        self._held += more
        return now

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[None]:
        """Let a request in for the length of the block.

        Raises:
            ServeError: there are too many, or the server is draining.
        """
        if self.draining:
            raise ServeError("draining")
        if self._admitted >= self.limits.concurrency + self.limits.queue:
            raise ServeError("queue_full")
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
            async with asyncio.timeout(self.limits.queue_seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise ServeError("queue_full") from None
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._slots.release()


# -- metrics ------------------------------------------------------------------------------------


_RESPONSES = (
    "knowgate_http_responses_total",
    "Responses of the HTTP service, by endpoint and status.",
    ("endpoint", "status"),
)
_REQUESTS = (
    "knowgate_http_requests",
    "Requests that the HTTP service works on, and that wait.",
    ("state",),
)
_lock = Lock()
_by_registry: WeakKeyDictionary[CollectorRegistry, tuple[Counter, Gauge]] = WeakKeyDictionary()


def http_metrics(registry: CollectorRegistry) -> tuple[Counter, Gauge]:
    """The metrics of a registry, made once: services that share it share them."""
    with _lock:
        if registry not in _by_registry:
            responses = Counter(*_RESPONSES, registry=registry)
            requests = Gauge(*_REQUESTS, registry=registry, multiprocess_mode="livesum")
            _by_registry[registry] = responses, requests
        return _by_registry[registry]


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """All metrics of a registry, of all processes in multi-process mode, and their type."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


# -- the middleware -----------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class AccessMiddleware:
    """ASGI middleware in front of all endpoints.

    Args:
        app: what answers.
        admission: counts and bounds requests below `/v1/`; has the limits of their bodies.
        token: that requests must bear; without one only the local machine is answered.
        metrics: of responses and requests, see `http_metrics`.
        endpoints: paths that have a label of their own in them; all others share `other`.
    """

    app: ASGIApp
    admission: Admission
    token: str | None
    metrics: tuple[Counter, Gauge]
    endpoints: Collection[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self.app(scope, receive, send)
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
        endpoint = path if path in self.endpoints else "other"
        untouched = True

        async def body() -> Message:
            nonlocal untouched
            untouched = False
            return await receive()

        try:
            self._check_sender(scope)
            if path.startswith(_WORK):
                await self._work(scope, body, answer)
            else:
                await self.app(scope, body, answer)
        except ClientDisconnect:
            pass
        except ServeError as error:
            if untouched and _is_short(scope):
                await discard_body(receive)
            await reply_to(error)(scope, receive, answer)
        except asyncio.CancelledError:
            if status or not self.admission.draining:
                raise
            await reply_to(ServeError("draining"))(scope, receive, answer)
        except Exception as error:  # noqa: BLE001 - its text may be a user's
            _logger.error("%s raised %s", endpoint, type(error).__name__)
            if not status:
                await reply_to(ServeError("internal_error"))(scope, receive, answer)
        finally:
            # Nobody is there any more; the number is that of nginx.
            status = status or 499
            self.metrics[0].labels(endpoint, str(status)).inc()
            spent = (time.perf_counter() - started) * 1000
            _logger.info("%s %d %.1f ms", endpoint, status, spent)

    def _check_sender(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self.token is None:
            client = scope.get("client")
            here = client is None or is_loopback(str(client[0]))
            # The host too: another page of a browser may have a name that leads here.
            if not here or not is_loopback(_host(headers.get(b"host", b""))):
                raise ServeError("not_local")
        elif scope["path"] not in _HEALTH:
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            # Of the environment, which may hold bytes that are no text.
            token = self.token.encode("utf-8", "surrogateescape")
            right = hmac.compare_digest(given.strip(), token)
            if kind.lower() != b"bearer" or not right:
                raise ServeError("wrong_token")

    async def _work(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = 0

        def grow(size: int) -> None:
            nonlocal held
            held = self.admission.hold(held, size)

        try:
            async with self.admission.entered():
                self._show()
                body = await _read(scope, receive, self.admission.limits, grow)
                gone = asyncio.ensure_future(_disconnected(receive))
                again = replay(body, lambda: asyncio.shield(gone))
                work = asyncio.ensure_future(self._in_turn(scope, again, send))
                await _unless(gone, work)
        finally:
            grow(0)
            self._show()

    async def _in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self.admission.working():
            self._show()
            await self.app(scope, receive, send)

    def _show(self) -> None:
        _, requests = self.metrics
        requests.labels("running").set(self.admission.running)
        requests.labels("waiting").set(self.admission.waiting)


def _is_short(scope: Scope) -> bool:
    """Whether the body of a rejected request is worth being read before it is replied to."""
    headers = dict(scope["headers"])
    declared = headers.get(b"content-length", b"0")
    # A client that sends `Expect` waits for the status before its body.
    short = declared.isdigit() and int(declared[:20]) <= _LONGEST_REJECTED
    return short and b"expect" not in headers


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


async def _read(
    scope: Scope, receive: Receive, limits: ServeLimits, grow: Callable[[int], None]
) -> bytes:
    """The whole body; `grow` is told its size as it arrives.

    Raises:
        ServeError: it is too large, alone or with others, or does not arrive in time.
        ClientDisconnect: the client has gone.
    """
    declared = dict(scope["headers"]).get(b"content-length", b"0")
    too_large = ServeError("body_too_large", most=limits.body_bytes)
    if not declared.isdigit() or int(declared[:20]) > limits.body_bytes:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in Request(scope, receive).stream():
                size += len(part)
                if size > limits.body_bytes:
                    raise too_large
                grow(size)
                parts.append(part)
    except TimeoutError:
        raise ServeError("body_too_late") from None
    return b"".join(parts)


async def _unless(gone: asyncio.Task[Message], work: asyncio.Task[None]) -> None:
    """Wait for `work`; cancel it when the client has gone, or nobody waits any more.

    Raises:
        ClientDisconnect: the client has gone.
    """
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientDisconnect
        await work
    finally:
        for task in (work, gone):
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def _disconnected(receive: Receive) -> Message:
    """Return the message that the client has gone, once it comes."""
    while (message := await receive())["type"] != "http.disconnect":
        pass
    return message


def replay(body: bytes, then: Receive) -> Receive:
    """A receive channel that gives the body, and then what follows."""
    left = [body]

    async def receive() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await then()

    return receive


async def discard_body(receive: Receive) -> None:
    """Read the body of a rejected request, within bounds, before it is replied to.

    A connection that is closed while bytes arrive is reset, and the client may then lose
    the reply that says why it was rejected.

    Args:
        receive: of a request of which nothing was read.
    """
    more, size = True, 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_DISCARD_SECONDS):
            while more and size <= _LONGEST_REJECTED:
                message = await receive()
                more = message.get("more_body", False)
                size += len(message.get("body", b""))
