"""Load graphs from RDF files, stores on disk, SPARQL endpoints and the bundled microworld."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ....guard.errors import InputError, optional_import
from ....guard.files import AnyPath, file_sha256
from ...testbed import default_world
from ._building import GraphBuilder, Progress
from .endpoint import EndpointSettings, load_endpoint
from .graph import KnowledgeGraph

MICROWORLD = "microworld"
_EXTENSIONS = ("nt", "nq", "ttl", "trig", "n3", "rdf", "xml", "jsonld", "owl")
# RDF/XML: its entities can be declared to stand for gigabytes.
_XML = ("rdf", "xml", "owl")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_END = re.compile(rb"\]\s*>")
_MOST_PROLOG = 1 << 20
# What a packed file may grow to: this much in any case, and this many times its size.
_UNPACKED_BYTES, _UNPACKED_RATIO = 1 << 30, 200
_ADDRESS = re.compile(r"https?://", re.IGNORECASE)


def load_graph(
    path: AnyPath,
    *,
    languages: Sequence[str] = ("en",),
    fallback: Sequence[str] = (),
    properties: Sequence[str] = (),
    endpoint: EndpointSettings | None = None,
    on_progress: Progress | None = None,
) -> KnowledgeGraph:
    """Load a graph from an RDF file, a pyoxigraph store, a SPARQL endpoint, or the microworld.

    Named graphs are read as one. Of an endpoint only a part is fetched.

    Args:
        path: N-Triples, N-Quads, Turtle, TriG, N3, RDF/XML or JSON-LD, by the ending of the
            name, each also with `.gz` after it; a store's folder; an endpoint's address; or
            `microworld`.
        languages: in which names are kept.
        fallback: languages whose names stand in for missing ones.
        properties: of an endpoint only: IRIs, or `P19` for a property of Wikidata; its
            commonest ones by default, which the largest endpoints take too long to count.
        endpoint: how an endpoint is asked.
        on_progress: called with the number of triples read so far.

    Raises:
        InputError: no such file, an unknown ending, a broken file (with the line), or a
            property that is no IRI.
        SparqlError: the endpoint does not answer as it should.
        MissingDependencyError: pyoxigraph is not installed; for endpoints, httpx.
    """
    builder = GraphBuilder(languages, fallback, on_progress)
    if _ADDRESS.match(os.fspath(path)):
        settings = endpoint or EndpointSettings()
        return load_endpoint(os.fspath(path), builder, properties, settings)
    oxigraph = optional_import("pyoxigraph")
    if os.fspath(path) == MICROWORLD:
        text = default_world().to_ntriples()
        quads = oxigraph.parse(text, oxigraph.RdfFormat.N_TRIPLES)
        _feed(builder, quads, MICROWORLD)
        return builder.build(MICROWORLD, hashlib.sha256(text.encode("utf-8")).hexdigest())
    where = Path(path)
    if where.is_dir():
        return _store(builder, where)
    if not where.is_file():
        raise InputError("no such file", where=str(where), hint="check the path")
    _feed(builder, _parsed(oxigraph, where), str(where))
    return builder.build(where.name, file_sha256(where))


def _parsed(oxigraph: Any, path: Path) -> Iterator[Any]:
    """Yield the quads of a file."""
    name = path.name.removesuffix(".gz")
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    if extension not in _EXTENSIONS:
        what = f"the ending {('.' + extension) if extension else '(none)'} is not known"
        hint = f"one of: {', '.join('.' + known for known in _EXTENSIONS)}, or these with .gz"
        raise InputError(what, where=str(path), hint=hint)
    shape = oxigraph.RdfFormat.from_extension("rdf" if extension == "owl" else extension)
    # Relative addresses are resolved; what stands before them makes no difference.
    base = "http://example.invalid/"
    packed = path.name.endswith(".gz")
    if extension in _XML:
        with gzip.open(path, "rb") if packed else path.open("rb") as stream:
            _require_no_entities(stream, path)
    if packed:
        with gzip.open(path, "rb") as stream:
            bounded: Any = _Bounded(stream, path)
            yield from oxigraph.parse(bounded, shape, base_iri=base)
    else:
        yield from oxigraph.parse(path=path, format=shape, base_iri=base)


def _require_no_entities(stream: Any, path: Path) -> None:
    """Reject XML that declares entities: a small file can stand for gigabytes.

    Raises:
        InputError: it does, or its declarations do not end within a megabyte.
    """
    # Without the zeros, text of two bytes per character is searched like any other.
    head = _COMMENT.sub(b"", stream.read(_MOST_PROLOG).replace(b"\0", b""))
    doctype = head.find(b"<!DOCTYPE")
    endless = doctype >= 0 and b"[" in head[doctype:] and _END.search(head, doctype) is None
    if b"<!ENTITY" in head or endless:
        hint = "convert it, e.g. `riot --output=ttl FILE`, and name the new file"
        raise InputError("declares XML entities, which are not read", where=str(path), hint=hint)


class _Bounded:
    """A packed file that ends with an error once it has grown out of all proportion."""

    def __init__(self, stream: Any, path: Path) -> None:
        self._stream = stream
        self._left = max(_UNPACKED_BYTES, _UNPACKED_RATIO * path.stat().st_size)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes.

        Raises:
            ValueError: more was unpacked than is allowed.
        """
        found: bytes = self._stream.read(size)
        self._left -= len(found)
        if self._left < 0:
            raise ValueError("too much was unpacked")
        return found


def _feed(builder: GraphBuilder, quads: Any, where: str) -> None:
    add = builder.add
    try:
        for subject, predicate, obj, _graph in quads:
            add(subject, predicate.value, obj)
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""
        detail = " ".join(str(error.msg).split())  # it may quote the file
        what, place = f"not valid RDF ({detail})", f"{where}{line}"
        raise InputError(what, where=place, hint="fix the file") from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise _unreadable(Path(where), error) from None


def _store(builder: GraphBuilder, path: Path) -> KnowledgeGraph:
    if not (path / "CURRENT").is_file():
        what = "is a folder, and none in which pyoxigraph keeps a store"
        raise InputError(what, where=str(path), hint="name an RDF file")
    try:
        store = optional_import("pyoxigraph").Store.read_only(str(path))
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    _feed(builder, store, str(path))
    lines = "".join(sorted(str(quad) for quad in store))
    return builder.build(path.name, hashlib.sha256(lines.encode("utf-8")).hexdigest())


def _unreadable(path: Path, error: BaseException) -> InputError:
    reason = getattr(error, "strerror", None) or type(error).__name__
    if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
        reason = "broken gzip file"
    return InputError(f"cannot be read ({reason})", where=str(path), hint="check the file")
