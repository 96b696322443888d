"""Questions from a SPARQL endpoint that is hostile: `kg generate` ends in time, with one line.

The endpoint and what it redirects to are servers on the loopback address.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import resource
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.commands import Program, command

from .command_line import Ended
from .inputs import ENTITIES
from .outcome import Outcome, tally

Answer = Callable[[socket.socket, bytes], None]
# The command is told to be done after three seconds.
_OPTIONS = ("pause=0", "timeout=2", "deadline=3")
_MOST_SECONDS, _MOST_BYTES = 30.0, 600 << 20
# Most of the time a command waits for its endpoint.
_AT_ONCE = 4
_OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
_JSON = _OK + b"Content-Type: application/sparql-results+json\r\n"
_IRI = {"type": "uri", "value": "http://example.invalid/a"}
_TEXT = {"type": "literal", "value": "a"}


def _says(*parts: bytes) -> Answer:
    return lambda client, _: client.sendall(b"".join(parts))


def _forever(start: bytes, parts: Iterator[bytes], pause: float = 0.0) -> Answer:
    def answer(client: socket.socket, _: bytes) -> None:
        client.sendall(start)
        for part in parts:
            client.sendall(part)
            time.sleep(pause)

    return answer


def _repeated(start: bytes, part: bytes, pause: float = 0.0) -> Answer:
    return _forever(start, (part for _ in count()), pause)


def _packed(kinds: bytes, body: bytes) -> Answer:
    head = _JSON + b"Content-Encoding: %s\r\nContent-Length: %d\r\n\r\n"
    return _says(head % (kinds, len(body)), body)


@lru_cache
def _zeros(times: int) -> bytes:
    """Ten gigabytes of blanks, packed, and packed again; the end is missing."""
    if times > 1:
        return gzip.compress(_zeros(times - 1))
    packer = zlib.compressobj(wbits=31)
    start = packer.compress(b" ") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * 2**24) + packer.flush(zlib.Z_FULL_FLUSH)
    return start + block * 640


def _rows(*terms: Any, length: int = 3) -> Answer:
    """Answer every query with rows in which these terms take turns."""

    def answer(client: socket.socket, query: bytes) -> None:
        names = re.findall(rb"%3F(\w+)", query.partition(b"WHERE")[0])
        names = list(dict.fromkeys(name.decode() for name in names)) or ["s"]
        bindings = [
            {name: terms[(i + j) % len(terms)] for j, name in enumerate(names)}
            for i in range(length)
        ]
        body = json.dumps({"head": {"vars": names}, "results": {"bindings": bindings}})
        with contextlib.suppress(OSError):
            client.sendall(_JSON + b"\r\n" + body.encode("utf-8", "surrogatepass"))

    return answer


def _iri(value: str) -> dict[str, str]:
    return {"type": "uri", "value": value}


def _redirects(target: str) -> dict[str, Answer]:
    places = {
        "another port": target,
        "a file": "file:///etc/hostname",
        "itself": "/sparql",
        "metadata": target.replace("127.0.0.1", "[::ffff:127.0.0.1]"),
    }
    return {
        f"redirect {status} to {name}": _says(
            b"HTTP/1.1 %d Moved\r\nContent-Length: 0\r\n" % status,
            f"Location: {place}\r\n\r\n".encode(),
        )
        for status in (301, 302, 303, 307, 308)
        for name, place in places.items()
    }


def _bodies() -> dict[str, Answer]:
    bomb = f'<!DOCTYPE sparql [{ENTITIES}]><sparql xmlns="x"><head/>&e9;</sparql>'.encode()
    xml = _OK + b"Content-Type: application/sparql-results+xml\r\n\r\n"
    return {
        "entities in XML": _says(xml, bomb),
        "entities in XML that says it is JSON": _says(_JSON, b"\r\n", bomb),
        "packed once": _packed(b"gzip", _zeros(1)[: 2**20]),
        "packed twice": _packed(b"gzip, gzip", _zeros(2)),
        "packed three times": _packed(b"gzip, gzip, gzip", _zeros(3)),
        "an unknown packing": _packed(b"x-bomb", b"{}"),
        "an endless body": _repeated(_JSON + b"\r\n", b" " * 65_536),
        "a body that drips": _repeated(_JSON + b"\r\n", b" ", 0.05),
        "endless chunks": _repeated(_JSON + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        "a chunk of 2^60 bytes": _repeated(
            _JSON + b"Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n", b" " * 65_536
        ),
        "a length of 10^18": _says(_JSON, b"Content-Length: 1000000000000000000\r\n\r\n{"),
        "no header": _repeated(b"", b"H", 0.05),
        "headers that drip": _repeated(_JSON, b"X: y\r\n", 0.05),
        "endless headers": _repeated(_JSON, b"X-Endless: yes\r\n"),
        "endless early hints": _repeated(b"", b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n", 0.001),
        "later, in a year": _says(
            b"HTTP/1.1 429 Busy\r\nRetry-After: 9999999\r\nContent-Length: 0\r\n\r\n"
        ),
        "later, on a day that is none": _says(
            b"HTTP/1.1 503 No\r\nRetry-After: Mon, 99 Foo 99999 99:99:99 GMT\r\n"
            b"Content-Length: 0\r\n\r\n"
        ),
        "nothing": _says(b""),
        "another protocol": _says(b"SSH-2.0-x\r\n\r\n"),
        "status 99999": _says(b"HTTP/1.1 99999 x\r\n\r\n"),
    }


def _types() -> dict[str, Answer]:
    texts = {
        "null": "null",
        "a list": "[]",
        "a boolean": '{"head": {}, "boolean": true}',
        "no rows": '{"head": {"vars": ["s"]}}',
        "a number of rows": '{"head": {"vars": ["s"]}, "results": {"bindings": 7}}',
        "vars of numbers": '{"head": {"vars": [1, null]}, "results": {"bindings": []}}',
        "vars that are no names": '{"head": {"vars": ["", "a b"]}, "results": {"bindings": [{}]}}',
        "deep": "[" * 2_000_000,
        "deep objects": '{"a":' * 500_000,
        "a number of a million digits": "9" * 1_000_000,
        "half a character": '{"head": {"vars": ["\\ud800"]}, "results": {"bindings": []}}',
    }
    triple = {"type": "triple", "value": {"subject": _IRI, "predicate": _IRI, "object": _IRI}}
    nested: Any = triple
    for _ in range(200):
        nested = {"type": "triple", "value": {"subject": _IRI, "predicate": _IRI, "object": nested}}
    terms: dict[str, tuple[Any, ...]] = {
        "triples": (triple,),
        "triples in triples": (nested,),
        "triples and names": (_IRI, triple),
        "texts": (_TEXT,),
        "texts and names": (_IRI, _TEXT),
        "blank nodes": ({"type": "bnode", "value": "b"},),
        "no type": ({"value": "x"},),
        "a type that is none": ({"type": "x", "value": "x"},),
        "numbers": (7,),
        "null terms": (None,),
        "unbound": ({},),
        "a number that is none": (
            {**_TEXT, "datatype": "http://www.w3.org/2001/XMLSchema#integer"},
        ),
        "a date of the year 10^400": (
            _IRI,
            {
                "type": "literal",
                "value": "9" * 400 + "-01-01",
                "datatype": "http://www.w3.org/2001/XMLSchema#date",
            },
        ),
        "a language that is none": ({**_TEXT, "xml:lang": "\n" * 9},),
        "names that end a query": (
            _iri("http://x.invalid/> } } ; DROP ALL # "),
            _iri("http://x.invalid/\n{ ?s ?p ?o }"),
        ),
        "names of controls": (_iri("http://x.invalid/\u0000\u202e\ud800"), _TEXT),
        "properties of the wikibase form": (_iri("http://x.invalid/prop/direct/P31"), _TEXT),
        "a name of a megabyte": (_iri("http://x.invalid/" + "a" * 2**20),),
    }
    found = {name: _says(_JSON, b"\r\n", text.encode()) for name, text in texts.items()}
    found |= {f"rows of {name}": _rows(*values) for name, values in terms.items()}
    long = {**_TEXT, "value": "x" * 2**22}
    return found | {
        "pages of 64 MB for ever": _rows(_IRI, long, length=12),
        "pages of one row for ever": _rows(_IRI, _TEXT, length=1),
        "a million rows": _rows(_IRI, _TEXT, length=300_000),
    }


class HostileEndpoint:
    """A server that gives one answer to every request, and one that nobody may ask."""

    def __init__(self) -> None:
        self.answer: Answer = _says(b"")
        self.asked = 0
        self._listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.url, self.private = (
            f"http://127.0.0.1:{one.getsockname()[1]}/sparql" for one in self._listening
        )
        for one in self._listening:
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def close(self) -> None:
        """Take no further connection."""
        for one in self._listening:
            one.close()

    def _serve(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = listening.accept()[0]
                self.asked += listening is self._listening[1]
                threading.Thread(target=self._one, args=(client,), daemon=True).start()

    def _one(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            client.settimeout(30)
            query = b""
            while b"query=" not in query and (part := client.recv(65_536)):
                query += part
            self.answer(client, query)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65_536):
                pass


def passes(folder: Path, case: tuple[str, bool]) -> bool:
    """Whether the command takes long or much, ends badly, or asks another server."""
    with contextlib.closing(HostileEndpoint()) as endpoint:
        name, named = case
        endpoint.answer = answers(endpoint.private)[name]
        return _ends_badly(endpoint, folder, named)


def _ends_badly(endpoint: HostileEndpoint, folder: Path, named: bool) -> bool:
    out = folder / f"out{time.monotonic_ns()}"
    include = ("--include", "http://example.invalid/p") if named else ()
    options = [word for one in _OPTIONS for word in ("--endpoint", one)]
    started = time.monotonic()
    with command("kg", "generate", endpoint.url, "--out", out, *include, *options) as program:
        peak = 0
        while program.code is None and time.monotonic() - started < _MOST_SECONDS:
            peak = max(peak, _memory(program))
            time.sleep(0.02)
        orderly = program.code is not None and Ended(program.code, program.err).orderly
    return not orderly or peak > _MOST_BYTES or endpoint.asked > 0


def _memory(program: Program) -> int:
    with contextlib.suppress(OSError, IndexError):
        pages = Path(f"/proc/{program.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * resource.getpagesize()
    return 0


def answers(target: str) -> dict[str, Answer]:
    """All answers of a hostile endpoint, by what they are; redirects lead to `target`."""
    return {**_redirects(target), **_bodies(), **_types()}


def attacks(folder: Path, full: bool) -> Iterator[Outcome]:
    """Ask an endpoint that gives each of the answers, for a property or all of them."""
    cases = list(answers("http://127.0.0.1:1/"))
    chosen = [
        (f"{name}{', one property' * named}", (name, named))
        for name in (cases if full else cases[::12])
        # What is no answer to the query is the same to both.
        for named in ((False, True) if full and "rows" in name else (False,))
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        ended = pool.map(lambda one: passes(folder, one[1]), chosen)
        through = {name: bad for (name, _), bad in zip(chosen, ended, strict=True)}
    yield tally("hostile answers of an endpoint to `kg generate`", through.items(), bool)
