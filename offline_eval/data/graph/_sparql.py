"""A SPARQL client with pauses between requests, bounded retries, deadlines and answer sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from ...._version import __version__
from ....guard.errors import InputError, optional_import
from ._graph import SparqlError, SparqlStatusError, SparqlTimeoutError, SparqlTooLargeError

_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_LONGEST_WAIT = 60.0
_JSON = "application/sparql-results+json"
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class EndpointSettings:
    """How an endpoint is asked, and how much is fetched from it.

    Attributes:
        user_agent: who asks; public endpoints want a way to reach you in it.
        pause: seconds between the end of a request and the next, at least.
        timeout: seconds for one request.
        deadline: seconds for everything that is asked.
        max_attempts: requests for one answer.
        first_wait: seconds before the second attempt, at most; doubled from there, drawn at
            random. A server's `Retry-After` is waited for besides.
        max_bytes: of one answer.
        page_size: rows asked for at a time.
        most_properties: of the commonest ones, where none are named.
        most_facts: of each property.
        subjects: a graph pattern in SPARQL about `?s`, such as `?s a <http://…/River>`: only
            facts of these subjects are fetched. The largest endpoints cannot order all facts
            of a property.
    """

    user_agent: str = f"knowgate/{__version__} (question generator)"
    pause: float = 0.5
    timeout: float = 65.0
    deadline: float = 1800.0
    max_attempts: int = 6
    first_wait: float = 2.0
    max_bytes: int = 64 * 1024 * 1024
    page_size: int = 5000
    most_properties: int = 30
    most_facts: int = 20_000
    subjects: str = ""

    def __post_init__(self) -> None:
        for name in ("timeout", "deadline"):
            if not getattr(self, name) > 0:
                raise InputError("must be positive", where=name)
        for name in ("pause", "first_wait"):
            if not getattr(self, name) >= 0:
                raise InputError("must not be negative", where=name)
        for name in ("max_attempts", "max_bytes", "page_size", "most_properties", "most_facts"):
            if getattr(self, name) < 1:
                raise InputError("must be at least 1", where=name)
        if not self.user_agent.strip() or not self.user_agent.isprintable():
            raise InputError("must be one line of text", where="user_agent")


class _TransientError(SparqlError):
    """Worth another attempt.

    Attributes:
        after: seconds that the server asks to wait.
        lasting: what is raised when no attempt helps.
    """

    def __init__(self, lasting: SparqlError, after: float = 0.0) -> None:
        self.lasting, self.after = lasting, after
        super().__init__(str(lasting))


class SparqlClient:
    """Asks one endpoint, one request at a time. A context manager.

    Args:
        url: of the endpoint, `http` or `https`.
        settings: how; the defaults by default.

    Raises:
        InputError: the address is none.
        MissingDependencyError: httpx or pyoxigraph is not installed.
    """

    def __init__(self, url: str, settings: EndpointSettings | None = None) -> None:
        self._settings = EndpointSettings() if settings is None else settings
        self._httpx = optional_import("httpx")
        self._oxigraph = optional_import("pyoxigraph")
        try:
            address = self._httpx.URL(url)
        except (self._httpx.InvalidURL, TypeError, ValueError):
            address = None
        if address is None or address.scheme not in ("http", "https") or not address.host:
            raise InputError("is not an http address", where="endpoint", hint="https://host/sparql")
        self._url = address
        # Without a password that may stand in it.
        self.name = f"{address.host}{address.path}"
        self.requests = 0
        self._started: float | None = None
        self._last_end = float("-inf")
        self._client = self._httpx.Client(
            headers={"User-Agent": self._settings.user_agent, "Accept": _JSON},
            timeout=self._settings.timeout,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def select(self, query: str, names: Sequence[str]) -> list[Row]:
        """The rows of a SELECT query, as terms of pyoxigraph; None where nothing is bound.

        Raises:
            SparqlTimeoutError: no answer before the deadline.
            SparqlStatusError: the endpoint says no.
            SparqlTooLargeError: the answer is larger than allowed.
            SparqlError: it cannot be reached, or does not answer in SPARQL's JSON.
        """
        left = self._time_left()
        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, _TransientError)),
            stop=stop_after_attempt(self._settings.max_attempts) | stop_before_delay(left),
            wait=self._wait,
            reraise=True,
        )
        try:
            return retrying(self._attempt, query, names)
        except _TransientError as error:
            raise error.lasting from error

    def pages(
        self, page: Callable[[int, int], str], names: Sequence[str], most: int
    ) -> Iterator[list[Row]]:
        """Page after page of an ordered query, up to `most` rows or until there are no more.

        Args:
            page: (limit, offset) → query.
            names: of its variables.
            most: rows in all.
        """
        offset = 0
        while offset < most:
            limit = min(self._settings.page_size, most - offset)
            rows = self.select(page(limit, offset), names)
            yield rows
            # An endpoint may cut pages shorter than asked for: only an empty one is the last.
            if not rows:
                return
            offset += len(rows)

    # --- one request --------------------------------------------------------------------------

    def _attempt(self, query: str, names: Sequence[str]) -> list[Row]:
        pause = self._last_end + self._settings.pause - time.monotonic()
        if pause > 0:
            time.sleep(min(pause, self._time_left()))
        try:
            body = self._body(query)
        except self._httpx.TimeoutException:
            raise _TransientError(
                SparqlTimeoutError(f"{self.name}: no answer within {self._settings.timeout:g} s")
            ) from None
        except self._httpx.HTTPError as error:
            raise _TransientError(
                SparqlError(f"{self.name}: cannot be reached ({type(error).__name__})")
            ) from None
        finally:
            self._last_end = time.monotonic()
            self.requests += 1
        return self._rows(body, names)

    def _body(self, query: str) -> bytes:
        end = time.monotonic() + min(self._settings.timeout, self._time_left())
        parts: list[bytes] = []
        size = 0
        with self._client.stream("POST", self._url, data={"query": query}) as response:
            self._reject(response)
            for part in response.iter_bytes():
                size += len(part)
                if size > self._settings.max_bytes:
                    raise SparqlTooLargeError(
                        f"{self.name}: an answer of more than {self._settings.max_bytes:,} bytes"
                    )
                if time.monotonic() > end:
                    raise _TransientError(
                        SparqlTimeoutError(f"{self.name}: an answer that does not end in time")
                    )
                parts.append(part)
        return b"".join(parts)

    def _reject(self, response: Any) -> None:
        status = response.status_code
        if status == 200:
            return
        error = SparqlStatusError(f"{self.name}: status {status}{_meaning(status)}", status)
        if status in _TRANSIENT:
            raise _TransientError(error, _retry_after(response.headers.get("Retry-After")))
        raise error

    def _rows(self, body: bytes, names: Sequence[str]) -> list[Row]:
        try:
            found = self._oxigraph.parse_query_results(body, self._oxigraph.QueryResultsFormat.JSON)
            known = {variable.value for variable in found.variables}
            return [
                tuple(solution[name] if name in known else None for name in names)
                for solution in found
            ]
        except (SyntaxError, ValueError, AttributeError) as error:
            # Servers that run out of time in the middle of an answer just stop.
            raise _TransientError(
                SparqlError(f"{self.name}: the answer is not SPARQL's JSON, or is cut off")
            ) from error

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        drawn = wait_random_exponential(self._settings.first_wait, max=_LONGEST_WAIT)(state)
        return drawn + (error.after if isinstance(error, _TransientError) else 0.0)

    def _time_left(self) -> float:
        now = time.monotonic()
        if self._started is None:
            self._started = now
        left = self._started + self._settings.deadline - now
        if left <= 0:
            raise SparqlTimeoutError(
                f"{self.name}: not done within {self._settings.deadline:g} s — give a longer "
                "deadline, or ask for less"
            )
        return left


def _meaning(status: int) -> str:
    if status in (400, 422):
        return " (the query is not understood)"
    if status in (401, 403):
        return " (not allowed)"
    if status == 429:
        return " (too many requests: come back later, or give a longer deadline)"
    if 300 <= status < 400:
        return " (it has moved: name its new address)"
    return " (no such address)" if status == 404 else ""


def _retry_after(value: str | None) -> float:
    """Seconds that a `Retry-After` header asks for: a number, or a date; 0.0 without one.

    Example:
        >>> _retry_after("7"), _retry_after("soon"), _retry_after(None)
        (7.0, 0.0, 0.0)
    """
    if value is None:
        return 0.0
    if value.strip().isdecimal() and len(value.strip()) < 8:
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
