"""A SPARQL endpoint on the loopback interface, with the faults that real ones have."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs

import pyoxigraph

Fault = Callable[["Endpoint", BaseHTTPRequestHandler], bool]
"""Answers a request badly and says True, or leaves it alone."""


@dataclass
class Endpoint:
    """One endpoint and what it was asked.

    Attributes:
        store: answers queries.
        most_rows: rows of an answer, whatever the query's LIMIT.
        fault: decides which requests fail and how.
        queries, agents, started: of every request, in order; times are monotonic.
        faults: how many requests were answered badly.
    """

    store: pyoxigraph.Store
    most_rows: int | None = None
    fault: Fault | None = None
    queries: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    started: list[float] = field(default_factory=list)
    faults: int = 0
    url: str = ""

    def answer(self, query: str) -> bytes:
        """SPARQL's JSON."""
        limit = re.search(r"LIMIT (\d+)", query)
        if self.most_rows is not None and limit is not None:
            kept = min(self.most_rows, int(limit.group(1)))
            query = query[: limit.start()] + f"LIMIT {kept}" + query[limit.end() :]
        found = self.store.query(query)
        assert isinstance(found, pyoxigraph.QuerySolutions)
        body = found.serialize(format=pyoxigraph.QueryResultsFormat.JSON)
        assert body is not None
        return body


@contextmanager
def serving(endpoint: Endpoint) -> Iterator[Endpoint]:
    """Run the endpoint; its `url` is set."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            endpoint.queries.append(form["query"][0])
            endpoint.agents.append(self.headers["User-Agent"])
            endpoint.started.append(time.monotonic())
            if endpoint.fault is not None and endpoint.fault(endpoint, self):
                endpoint.faults += 1
                return
            send(self, 200, endpoint.answer(form["query"][0]))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_port}/sparql"
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    """A whole answer, to a client that may have gone."""
    with suppress(ConnectionError):
        _send(handler, status, body, **headers)


def _send(handler: BaseHTTPRequestHandler, status: int, body: bytes, **headers: str) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "application/sparql-results+json")
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def often_down(share: float, seed: int = 0) -> Fault:
    """A share of the requests fails: a status, an answer cut off, a connection dropped."""
    draw = random.Random(seed)

    def fault(endpoint: Endpoint, handler: BaseHTTPRequestHandler) -> bool:
        if draw.random() >= share:
            return False
        kind = draw.randrange(4)
        if kind == 0:
            send(handler, 503)
        elif kind == 1:
            send(handler, 500, b"java.util.concurrent.TimeoutException")
        elif kind == 2:
            send(handler, 200, endpoint.answer(endpoint.queries[-1])[:-9])
        else:
            handler.close_connection = True
        return True

    return fault


def always(status: int, body: bytes = b"", **headers: str) -> Fault:
    """Every request is answered alike."""

    def fault(_endpoint: Endpoint, handler: BaseHTTPRequestHandler) -> bool:
        send(handler, status, body, **headers)
        return True

    return fault


def first(number: int, then: Fault) -> Fault:
    """Only the first requests fail."""

    def fault(endpoint: Endpoint, handler: BaseHTTPRequestHandler) -> bool:
        return len(endpoint.queries) <= number and then(endpoint, handler)

    return fault
