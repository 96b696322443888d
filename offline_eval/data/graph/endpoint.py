"""Fetch the facts of some properties from a SPARQL endpoint.

Of a property that has more facts than are fetched, the subjects that come first are taken, each
with all its values; that is why pages are ordered.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from string import Template
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, Field
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from ...._version import __version__
from ....guard.deadlines import DeadlineRunner
from ....guard.errors import (
    AllWorkersBusyError,
    DeadlineExceededError,
    InputError,
    KnowgateError,
    is_transient,
    optional_import,
)
from ....guard.files import table_beside
from ....guard.read_models import CheckedSettings
from ._building import GraphBuilder, property_entity
from .graph import (
    ALIASES,
    LABELS,
    PROPERTY_TYPE,
    RDF,
    TYPE,
    VOCABULARIES,
    WIKIBASE,
    WIKIBASE_PROPERTY,
    KnowledgeGraph,
)

_ASKED = table_beside(__file__, "endpoint.toml")
_LONGEST_WAIT = 60.0
_JSON = "application/sparql-results+json"
_IRI = re.compile(r"https?://[^\x00-\x20<>\"{}|^`\\]+")
_WIKIDATA = "http://www.wikidata.org/prop/direct/"
_BATCH = 150
_MOST_NAMES = 1_000_000
# Of all answers together, in sizes of the largest one.
_MOST_ANSWERS = 16
Row = tuple[Any, ...]


_WHO = f"knowgate/{__version__} (question generator)"


def _one_line(text: str) -> str:
    # A header takes no others.
    if not text.strip() or not text.isprintable() or not text.isascii():
        raise ValueError("must be one line of ASCII text")
    return text


class SparqlError(KnowgateError):
    """The endpoint did not answer as it should.

    Args:
        message: in one line.
        wait: seconds after which another attempt is worth it; None where none is.
    """

    def __init__(self, message: str, wait: float | None = None) -> None:
        self.wait = wait
        super().__init__(message)


class EndpointSettings(CheckedSettings, BaseModel, extra="forbid", frozen=True):
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

    user_agent: Annotated[str, AfterValidator(_one_line)] = _WHO
    pause: float = Field(0.5, ge=0)
    timeout: float = Field(65.0, gt=0)
    deadline: float = Field(1800.0, gt=0)
    max_attempts: int = Field(6, ge=1)
    first_wait: float = Field(2.0, ge=0)
    max_bytes: int = Field(64 * 1024 * 1024, ge=1)
    page_size: int = Field(5000, ge=1)
    most_properties: int = Field(30, ge=1)
    most_facts: int = Field(20_000, ge=1)
    subjects: str = ""


class SparqlClient:
    """Asks one endpoint, one request at a time. A context manager.

    Args:
        url: of the endpoint, `http` or `https`.
        settings: how.

    Raises:
        InputError: the address is none.
        MissingDependencyError: httpx or pyoxigraph is not installed.
    """

    def __init__(self, url: str, settings: EndpointSettings) -> None:
        self._settings = settings
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
        self._end = time.monotonic() + settings.deadline
        self._last = float("-inf")
        self._client = self._httpx.Client(
            headers={
                "User-Agent": settings.user_agent, "Accept": _JSON, "Accept-Encoding": "gzip",
            },
            timeout=settings.timeout,
        )  # fmt: skip
        self._received = 0
        # Headers that come letter by letter keep a request for as long as the server likes.
        self._threads = DeadlineRunner(settings.max_attempts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def select(self, query: str, names: Sequence[str], needed: int = 0) -> list[Row]:
        """Return the rows of a SELECT query, as terms of pyoxigraph; None where nothing is bound.

        Args:
            query: in SPARQL.
            names: of its variables.
            needed: so many of them, the first ones, must be bound.

        Raises:
            SparqlError: the endpoint says no, cannot be reached, gives no answer before the
                deadline, one that is too large, or none in SPARQL's JSON.
        """
        retrying = Retrying(
            retry=retry_if_exception(lambda error: getattr(error, "wait", None) is not None),
            stop=stop_after_attempt(self._settings.max_attempts)
            | stop_before_delay(self._time_left()),
            wait=self._wait,
            reraise=True,
        )
        triple = self._oxigraph.Triple
        for row in (rows := retrying(self._attempt, query, names)):
            for place, (name, value) in enumerate(zip(names, row, strict=True)):
                if value is None and place < needed:
                    raise SparqlError(f"{self.name}: an answer in which ?{name} is missing")
                if name != "o" and isinstance(value, triple):
                    raise SparqlError(f"{self.name}: an answer in which ?{name} is a triple")
        return rows

    def pages(self, query: str, names: Sequence[str], most: int, needed: int) -> Iterator[Row]:
        """Yield the rows of an ordered query, up to `most` or until there are no more."""
        offset = 0
        while offset < most:
            limit = min(self._settings.page_size, most - offset)
            rows = self.select(f"{query} LIMIT {limit} OFFSET {offset}", names, needed)
            yield from rows
            # An endpoint may cut pages shorter than asked for: only an empty one is the last.
            if not rows:
                return
            offset += len(rows)

    def _attempt(self, query: str, names: Sequence[str]) -> list[Row]:
        pause = self._last + self._settings.pause - time.monotonic()
        if pause > 0:
            time.sleep(min(pause, self._time_left()))
        seconds = min(self._settings.timeout, self._time_left())
        try:
            body = self._threads.call(lambda: self._sent(query, seconds), seconds + 1.0)
        except (DeadlineExceededError, AllWorkersBusyError, self._httpx.TimeoutException):
            raise SparqlError(f"{self.name}: no answer within {seconds:g} s", 0.0) from None
        except (self._httpx.HTTPError, zlib.error) as error:
            kind = type(error).__name__
            raise SparqlError(f"{self.name}: cannot be reached ({kind})", 0.0) from None
        finally:
            self._last = time.monotonic()
        self._received += len(body)
        if self._received > _MOST_ANSWERS * self._settings.max_bytes:
            raise self._too_large(f"answers of more than {_MOST_ANSWERS} times")
        # No error keeps what the parser made: it may be dropped on this thread only.
        with contextlib.suppress(SyntaxError, ValueError, AttributeError):
            found = self._oxigraph.parse_query_results(body, self._oxigraph.QueryResultsFormat.JSON)
            known = {variable.value for variable in found.variables}
            return [
                tuple(solution[name] if name in known else None for name in names)
                for solution in found
            ]
        # Servers that run out of time in the middle of an answer just stop.
        what = "the answer is not SPARQL's JSON, or is cut off"
        raise SparqlError(f"{self.name}: {what}", 0.0)

    def _sent(self, query: str, seconds: float) -> bytes:
        end = time.monotonic() + seconds
        body = bytearray()
        with self._client.stream("POST", self._url, data={"query": query}) as response:
            status = response.status_code
            if status != 200:
                meaning = _ASKED["meanings"].get("moved" if 300 <= status < 400 else str(status))
                message = f"{self.name}: status {status}{f' ({meaning})' if meaning else ''}"
                after = response.headers.get("Retry-After", "")
                # No date: by a wrong clock it would end the whole generation.
                wait = float(after) if re.fullmatch("[0-9]{1,7}", after) else 0.0
                error = self._httpx.HTTPStatusError("", request=response.request, response=response)
                raise SparqlError(message, wait if is_transient(error) else None)
            # A library would unpack what was packed again and again, and all of a part at once.
            packing = response.headers.get("Content-Encoding", "").strip().lower()
            if packing not in ("", "identity", "gzip"):
                raise SparqlError(f"{self.name}: an answer that is packed otherwise than by gzip")
            unpacker = zlib.decompressobj(wbits=31) if packing == "gzip" else None
            for part in response.iter_raw():
                room = self._settings.max_bytes - len(body) + 1
                body += part if unpacker is None else unpacker.decompress(part, room)
                if len(body) > self._settings.max_bytes:
                    raise self._too_large("an answer of more than")
                if time.monotonic() > end:
                    raise SparqlError(f"{self.name}: an answer that does not end in time", 0.0)
        return bytes(body)

    def _too_large(self, what: str) -> SparqlError:
        return SparqlError(f"{self.name}: {what} {self._settings.max_bytes:,} bytes")

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        drawn = wait_random_exponential(self._settings.first_wait, max=_LONGEST_WAIT)(state)
        return drawn + (getattr(error, "wait", None) or 0.0)

    def _time_left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            what = f"{self.name}: not done within {self._settings.deadline:g} s"
            raise SparqlError(f"{what} — give a longer deadline, or ask for less")
        return left


def load_endpoint(
    url: str,
    builder: GraphBuilder,
    properties: Sequence[str],
    settings: EndpointSettings,
) -> KnowledgeGraph:
    """Load a part of the graph behind a SPARQL endpoint.

    Args:
        url: of the endpoint.
        builder: of the graph; its languages are those in which names are fetched.
        properties: IRIs, or `P19` for a property of Wikidata; the endpoint's commonest ones
            by default, which the largest endpoints take too long to count.
        settings: how the endpoint is asked, and for how much.

    Raises:
        InputError: the address or a property is none.
        SparqlError: see `SparqlClient.select`.
    """
    wanted = [_checked(name) for name in properties]
    pattern = settings.subjects.strip()
    # In a query of its own, so that the pattern's other variables are its own.
    chosen = f"{{ SELECT DISTINCT ?s WHERE {{ {pattern} }} }} " if pattern else ""
    digest, seen = hashlib.sha256(), set[str]()

    def add(subject: Any, predicate: str, obj: Any) -> None:
        builder.add(subject, predicate, obj)
        digest.update(f"{subject} <{predicate}> {obj}\n".encode())

    with SparqlClient(url, settings) as client:
        for prop in wanted or _common_properties(client, chosen, settings.most_properties):
            for subject, predicate, obj in _facts(client, prop, chosen, settings.most_facts):
                add(subject, predicate, obj)
                terms = (term for term in (subject, obj) if not hasattr(term, "datatype"))
                seen |= {term.value for term in terms if hasattr(term, "value")}
            seen.add(property_entity(prop))
        # Only what can be written into a query as it is. Statements have no names.
        named = [one for one in seen if _IRI.fullmatch(one) and "/entity/statement/" not in one]
        for row in _names(client, sorted(named), (*builder.languages, *builder.fallback)):
            add(row[0], row[1].value, row[2])
        return builder.build(client.name, digest.hexdigest())


def _checked(name: str) -> str:
    if re.fullmatch(r"P\d+", name):
        return _WIKIDATA + name
    if not _IRI.fullmatch(name):
        hint = "http://…, or P19 for Wikidata's"
        raise InputError(f"{name!r} is no IRI", where="--include", hint=hint)
    return name


def _filled(text: str, **values: object) -> str:
    return Template(text).substitute(values, rdf=RDF, wikibase=WIKIBASE)


def _common_properties(client: SparqlClient, chosen: str, most: int) -> list[str]:
    """The IRIs that stand most often in triples whose objects can be answers."""
    found = []
    for kind, limit in (("plain", 4 * most), ("reified", most)):
        pattern = _filled(_ASKED["common"][kind], chosen=chosen)
        query = _filled(_ASKED["common"]["query"], pattern=pattern, most=limit)
        found += [row[0].value for row in client.select(query, ("p", "n"), 2)]
    skipped = (*LABELS, *ALIASES, TYPE)
    usable = [
        prop
        for prop in dict.fromkeys(found)
        if _IRI.fullmatch(prop)
        and prop not in skipped
        and not prop.startswith(VOCABULARIES)
        and ("/prop/" not in prop or "/prop/direct/" in prop)
    ]
    return usable[:most]


def _facts(
    client: SparqlClient, prop: str, chosen: str, most: int
) -> Iterator[tuple[Any, str, Any]]:
    """Yield a property's facts with their bounds, of as many subjects as there is room for."""
    named, cut = optional_import("pyoxigraph").NamedNode(prop), None
    match = WIKIBASE_PROPERTY.fullmatch(prop)
    own = {"prop": prop} if match is None else {"base": match[1], "name": match[3]}
    found: list[tuple[str, tuple[Any, str, Any]]] = []
    for asked in _ASKED["facts"]["plain" if match is None else "wikibase"]:
        names, said = asked["names"], [_filled(one, **own).split() for one in asked["said"]]
        variables = " ".join(f"?{name}" for name in names)
        where = chosen + _filled(asked["where"], **own)
        query = f"SELECT {variables} WHERE {{ {where} }} ORDER BY {variables}"
        rows = list(client.pages(query, names, most, asked["needed"]))
        for row in rows:
            terms = dict(zip(names, row, strict=True)) | {"property": named}
            for subject, predicate, obj in said:
                iri = predicate if terms.get(predicate) is None else terms[predicate].value
                is_own = iri != predicate and iri.startswith(RDF)
                if terms[obj] is not None and not is_own:
                    found.append((row[0].value, (terms[subject], iri, terms[obj])))
        if len(rows) >= most:
            cut = min(cut or rows[-1][0].value, rows[-1][0].value)
    # Beyond the first subject that may be cut off, some values may be missing.
    yield from (triple for about, triple in found if cut is None or about < cut)


def _names(client: SparqlClient, about: Sequence[str], languages: Sequence[str]) -> Iterator[Row]:
    """Yield the names and classes of some IRIs."""
    tags = ", ".join(f'"{tag}"' for tag in ("", "mul", *dict.fromkeys(languages)))
    variants = " || ".join(f'STRSTARTS(LANG(?o), "{tag}-")' for tag in dict.fromkeys(languages))
    entities = (re.fullmatch(r"(https?://.+)/entity/[QP]\d+", iri) for iri in about)
    instance_of = {f"{match[1]}/prop/direct/P31" for match in entities if match}
    predicates = [*LABELS, *ALIASES, TYPE, PROPERTY_TYPE, *sorted(instance_of)]
    listed = " ".join(f"<{predicate}>" for predicate in predicates)
    for start in range(0, len(about), _BATCH):
        subjects = " ".join(f"<{iri}>" for iri in about[start : start + _BATCH])
        slots = {"subjects": subjects, "predicates": listed, "tags": tags, "variants": variants}
        query = _filled(_ASKED["names"]["query"], **slots)
        yield from client.pages(query, ("s", "p", "o"), _MOST_NAMES, 3)
