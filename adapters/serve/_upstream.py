"""Ask an OpenAI-compatible upstream: deadline, bounded retries, typed errors.

connection refused, cut ───► asked again ─► 502 upstream_unreachable
408, 429, 5xx ─────────────► asked again ─► 429 upstream_busy, 502 upstream_failed
                             at once, where the upstream asks to wait for longer than that
other 4xx ─────────────────────────────────► 422 upstream_rejected, its own code kept
401, 403 ──────────────────────────────────► 502 upstream_key
too late ──────────────────────────────────► 504 upstream_timeout
200 that is not what was asked for ────────► 502 upstream_invalid
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
)
from tenacity.wait import wait_random_exponential

from ...guard.errors import NO_JSON, InputError, is_transient, seconds_to_wait
from ._bodies import ServeError, as_json, fields_of, read_object

EVENT_STREAM = "text/event-stream"
_logger = logging.getLogger("knowgate.serve")
_COMPLETION, _MODELS = "a chat completion", "a list of models"
_MOST_ERROR_BYTES = 64 * 2**10
_MOST_REPLY_BYTES = 32 * 2**20
_MOST_WAIT = 5.0
_CODE = re.compile(r"[\w.-]{1,64}", re.ASCII)
# The last event of a stream that is whole.
_WHOLE = re.compile(rb"[\r\n]data: ?\[DONE\]\s*\Z")
_FIRST_WAIT = wait_random_exponential(multiplier=0.2, max=_MOST_WAIT)


@dataclass(frozen=True, slots=True)
class Upstream:
    """An OpenAI-compatible server that answers what the guard lets through.

    Attributes:
        url: its base, as clients take it, for example `http://127.0.0.1:8001/v1`.
        key: sent as bearer token.
        model: asked in place of the one in the request.
        seconds: until a reply is complete; of a stream, until each next piece.
        retries: how often a request is sent again after a failure that may pass.
        transport: for tests, an `httpx.MockTransport` in place of the network.

    Raises:
        InputError: the URL is none, or a number is out of range.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    model: str | None = None
    seconds: float = 60.0
    retries: int = 2
    transport: httpx.AsyncBaseTransport | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not re.match(r"https?://[^/\s]", self.url):
            what = "is no URL"
            raise InputError(what, where="upstream", hint="for example http://127.0.0.1:8001/v1")
        if not (self.seconds > 0 and 0 <= self.retries <= 10):  # not NaN either
            what = "needs positive seconds and 0 to 10 retries"
            raise InputError(what, where="upstream", hint="see --help")
        if self.key is not None and not (self.key.isascii() and self.key.isprintable()):
            raise InputError("the key has characters that no header may have", where="upstream")


class UpstreamClient:
    """The connections to an upstream; belongs to one event loop.

    Args:
        upstream: what is asked.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._url = upstream.url.rstrip("/")
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if upstream.key is not None:
            self._headers["Authorization"] = f"Bearer {upstream.key}"
        # Who waits for a connection is bounded by the service's own limits.
        self._client = httpx.AsyncClient(
            transport=upstream.transport,
            timeout=httpx.Timeout(upstream.seconds),
            # What one client is sent must not go out with the request of the next one.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )

    @property
    def own_fields(self) -> dict[str, Any]:
        """What takes the place of fields of a request."""
        return {} if self._upstream.model is None else {"model": self._upstream.model}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def complete(self, body: bytes) -> dict[str, Any]:
        """A whole chat completion.

        Raises:
            ServeError: there is none; see the module.
        """

        found = await self._whole(self._request("chat/completions", body), _COMPLETION)
        if not isinstance(found.get("choices"), list) or not found["choices"]:
            raise _invalid(_COMPLETION)
        return found

    async def models(self) -> dict[str, Any]:
        """The models that the upstream lists.

        Raises:
            ServeError: there is no list; see the module.
        """
        found = await self._whole(self._request("models"), _MODELS)
        if not isinstance(found.get("data"), list):
            raise _invalid(_MODELS)
        return found

    @asynccontextmanager
    async def stream(self, body: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of a stream of chunks as they arrive; leaving the block ends it.

        Raises:
            ServeError: it does not begin, or does not go on; see the module.
        """

        request = self._request("chat/completions", body, EVENT_STREAM)

        async def ask() -> httpx.Response:
            return await opened.enter_async_context(self._sent(request))

        async with AsyncExitStack() as opened:
            response = await self._attempts(ask)
            if not response.headers.get("content-type", "").startswith(EVENT_STREAM):
                raise _invalid(_COMPLETION)
            yield _pieces(response)

    def _request(
        self, path: str, body: bytes | None = None, accept: str = "application/json"
    ) -> httpx.Request:
        """A request below the base; one without a body only reads."""
        return self._client.build_request(
            "GET" if body is None else "POST",
            f"{self._url}/{path}",
            content=body,
            headers={**self._headers, "Accept": accept},
        )

    async def _whole(self, request: httpx.Request, what: str) -> dict[str, Any]:
        """The JSON object of a whole response, asked for again after failures that may pass."""

        async def ask() -> dict[str, Any]:
            async with self._sent(request) as response:
                with _typed():
                    body = await _bounded(response, _MOST_REPLY_BYTES, what)
            return _object(body, what)

        found: dict[str, Any] = await self._attempts(ask)
        return found

    async def _attempts(self, ask: Any) -> Any:
        """What `ask` returns, asked again after failures that may pass."""
        attempts = AsyncRetrying(
            stop=stop_after_attempt(self._upstream.retries + 1)
            | stop_before_delay(self._upstream.seconds),
            wait=_pause,
            retry=retry_if_exception(_passes_soon),
            reraise=True,
        )
        try:
            async with asyncio.timeout(self._upstream.seconds):
                return await attempts(ask)
        except TimeoutError:
            raise _late() from None

    @asynccontextmanager
    async def _sent(self, request: httpx.Request) -> AsyncIterator[httpx.Response]:
        """A response with status 200, of which nothing was read; leaving the block ends it."""
        with _typed():
            response = await self._client.send(request, stream=True)
        try:
            # Not asked for, and of any size: it may be packed again and again.
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise _invalid("a reply that is not packed")
            if response.status_code != 200:
                raise await _rejection(response)
            yield response
        finally:
            with suppress(Exception):
                await response.aclose()


@contextmanager
def _typed() -> Iterator[None]:
    """Turn what a connection raises into an error of the service."""
    try:
        yield
    except httpx.TimeoutException:
        raise _late() from None
    except httpx.HTTPError as error:
        _logger.warning("the upstream cannot be reached: %s", type(error).__name__)
        failure = ServeError("upstream_unreachable")
        failure.passes = True
        raise failure from None


def _passes_soon(error: BaseException) -> bool:
    return isinstance(error, ServeError) and error.passes and (error.after or 0.0) <= _MOST_WAIT


def _pause(state: RetryCallState) -> float:
    """Seconds until the next attempt: as the upstream asks, or random and growing."""
    failure = state.outcome.exception() if state.outcome is not None else None
    asked = failure.after if isinstance(failure, ServeError) else None
    return _FIRST_WAIT(state) if asked is None else asked


async def _pieces(response: httpx.Response) -> AsyncIterator[bytes]:
    # Only its last event tells whether a stream is whole that ends with its connection.
    told = {"content-length", "transfer-encoding"} & set(response.headers)
    end = b"\n"
    with _typed():
        async for piece in response.aiter_bytes():
            end = (end + piece)[-64:]
            yield piece
        if not told and not _WHOLE.search(end):
            raise httpx.RemoteProtocolError("cut")


async def _bounded(response: httpx.Response, most: int, what: str) -> bytes:
    """The body, read no further than `most` bytes.

    Raises:
        ServeError: there are more.
    """
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > most:
            raise _invalid(what)
        parts.append(part)
    return b"".join(parts)


def _object(body: bytes, what: str) -> dict[str, Any]:
    found = read_object(body)
    with suppress(*NO_JSON):
        if found is not None:
            # Which holds no NaN, and no infinity.
            as_json(found)
            return found
    raise _invalid(what)


async def _rejection(response: httpx.Response) -> ServeError:
    """What a status other than 200 means; the text of the upstream is not passed on."""
    status = response.status_code
    _logger.warning("the upstream answered %d", status)
    if status in (401, 403):
        return ServeError("upstream_key")
    seconds = seconds_to_wait(response.headers.get("retry-after", ""))
    error = ServeError("upstream_failed", status=status)
    if status == 429:
        wait = str(max(1, math.ceil(seconds or 1)))
        error = ServeError("upstream_busy", headers={"Retry-After": wait})
    if is_transient(httpx.HTTPStatusError("", request=response.request, response=response)):
        error.passes, error.after = True, seconds
    elif 400 <= status < 500:
        code = await _code(response)
        return ServeError("upstream_rejected", named=f" ({code})" if code else "")
    return error


async def _code(response: httpx.Response) -> str:
    """The code of an error of OpenAI's shape; empty without one."""
    with suppress(httpx.HTTPError, ServeError):
        body = await _bounded(response, _MOST_ERROR_BYTES, "an error")
        fields = fields_of(fields_of(read_object(body)).get("error"))
        for name in ("code", "type"):
            value = fields.get(name)
            if isinstance(value, str) and _CODE.fullmatch(value):
                return value
    return ""


def _late() -> ServeError:
    _logger.warning("the upstream took too long")
    return ServeError("upstream_timeout")


def _invalid(what: str) -> ServeError:
    _logger.warning("the upstream answered with something else than %s", what)
    return ServeError("upstream_invalid", what=what)
