"""Fetch the facts of some properties from a SPARQL endpoint.

Of a property that has more facts than are fetched, the subjects that come first are taken, each
with all its values; that is why pages are ordered.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from ....guard.errors import InputError, optional_import
from ._building import GraphBuilder
from ._graph import (
    ALIASES,
    LABELS,
    PROPERTY_TYPE,
    RANK,
    RDF,
    STATEMENT_OBJECT,
    STATEMENT_PREDICATE,
    STATEMENT_SUBJECT,
    TYPE,
    VOCABULARIES,
    WIKIBASE_PROPERTY,
    KnowledgeGraph,
    SparqlError,
)
from ._sparql import EndpointSettings, SparqlClient

_IRI = re.compile(r"https?://[^\x00-\x20<>\"{}|^`\\]+")
_WIKIDATA = "http://www.wikidata.org/prop/direct/"
_BATCH = 150
_MOST_NAMES = 1_000_000
Progress = Callable[[int], None]


def load_endpoint(
    url: str,
    *,
    languages: Sequence[str] = ("en",),
    fallback: Sequence[str] = (),
    properties: Sequence[str] = (),
    settings: EndpointSettings | None = None,
    on_progress: Progress | None = None,
) -> KnowledgeGraph:
    """Load a part of the graph behind a SPARQL endpoint.

    Args:
        url: of the endpoint.
        languages: in which names are fetched.
        fallback: languages whose names stand in for missing ones.
        properties: IRIs, or `P19` for a property of Wikidata; the endpoint's commonest ones
            by default, which the largest endpoints take too long to count.
        settings: how the endpoint is asked, and for how much.
        on_progress: called with the number of triples so far.

    Raises:
        InputError: the address or a property is none.
        SparqlError: see `SparqlClient.select`.
    """
    settings = settings or EndpointSettings()
    wanted = [_checked(name) for name in properties]
    with SparqlClient(url, settings) as client:
        fetch = _Fetch(client, GraphBuilder(languages, fallback), settings, on_progress)
        for prop in wanted or fetch.common_properties():
            fetch.property(prop)
        fetch.names((*languages, *fallback))
        return fetch.builder.build(client.name, fetch.digest.hexdigest())


class _Fetch:
    def __init__(
        self,
        client: SparqlClient,
        builder: GraphBuilder,
        settings: EndpointSettings,
        on_progress: Progress | None,
    ) -> None:
        self._client, self.builder, self._settings = client, builder, settings
        self._on_progress = on_progress
        self._seen: set[str] = set()
        # In a query of its own, so that the pattern's other variables are its own.
        chosen = settings.subjects.strip()
        self._chosen = f"{{ SELECT DISTINCT ?s WHERE {{ {chosen} }} }} " if chosen else ""
        self.digest = hashlib.sha256()

    def common_properties(self) -> list[str]:
        """The IRIs that stand most often in triples whose objects can be answers."""
        query = (
            f"SELECT ?p (COUNT(*) AS ?n) WHERE {{ {self._chosen}?s ?p ?o FILTER(isIRI(?s)) }} "
            f"GROUP BY ?p ORDER BY DESC(?n) ?p LIMIT {4 * self._settings.most_properties}"
        )
        found = [row[0].value for row in self._asked(query, ("p", "n"))]
        # Facts that are stated with bounds only have no triple of their own.
        query = (
            f"SELECT ?p (COUNT(*) AS ?n) WHERE {{ ?s <{STATEMENT_PREDICATE}> ?p }} "
            f"GROUP BY ?p ORDER BY DESC(?n) ?p LIMIT {self._settings.most_properties}"
        )
        found += [row[0].value for row in self._asked(query, ("p", "n"))]
        skipped = (*LABELS, *ALIASES, TYPE)
        usable = [
            prop
            for prop in dict.fromkeys(found)
            if _IRI.fullmatch(prop)
            and prop not in skipped
            and not prop.startswith(VOCABULARIES)
            and not _is_statement_form(prop)
        ]
        return usable[: self._settings.most_properties]

    def _asked(self, query: str, names: Sequence[str]) -> list[Any]:
        return self._bound(self._client.select(query, names), names)

    def _bound(self, rows: list[Any], needed: Sequence[str]) -> list[Any]:
        """The rows, of which the first columns must not be empty."""
        for row in rows:
            for name, value in zip(needed, row, strict=False):
                if value is None:
                    raise SparqlError(f"{self._client.name}: an answer in which ?{name} is missing")
        return rows

    def property(self, prop: str) -> None:
        """The facts of a property with their bounds, of as many subjects as there is room for."""
        match = WIKIBASE_PROPERTY.fullmatch(prop)
        parts = (
            [self._wikibase(match.group(1), match.group(3))]
            if match is not None
            else [self._plain(prop), self._reified(prop)]
        )
        # Beyond the first subject that may be cut off, some values may be missing.
        ends = [end for _, end in parts if end is not None]
        cut = min(ends) if ends else None
        for triples, _ in parts:
            for about, (subject, predicate, obj) in triples:
                if cut is None or about < cut:
                    self._add(subject, predicate, obj)
        if cut is not None or self._chosen:
            self.builder.mark_partial(prop)
        self._see(prop if match is None else f"{match.group(1)}/entity/{match.group(3)}")

    def names(self, languages: Sequence[str]) -> None:
        """Names and classes of everything seen."""
        tags = ", ".join(f'"{tag}"' for tag in ("", "mul", *dict.fromkeys(languages)))
        variants = " || ".join(f'STRSTARTS(LANG(?o), "{tag}-")' for tag in dict.fromkeys(languages))
        instance_of = {
            f"{match.group(1)}/prop/direct/P31"
            for match in (re.fullmatch(r"(https?://.+)/entity/[QP]\d+", iri) for iri in self._seen)
            if match
        }
        predicates = [*LABELS, *ALIASES, TYPE, PROPERTY_TYPE, *sorted(instance_of)]
        listed = " ".join(f"<{predicate}>" for predicate in predicates)
        seen = sorted(self._seen)
        for start in range(0, len(seen), _BATCH):
            subjects = " ".join(f"<{iri}>" for iri in seen[start : start + _BATCH])

            def page(limit: int, offset: int, subjects: str = subjects) -> str:
                return (
                    f"SELECT ?s ?p ?o WHERE {{ VALUES ?s {{ {subjects} }} VALUES ?p {{ {listed} }} "
                    f"?s ?p ?o FILTER(isIRI(?o) || LANG(?o) IN ({tags}) || {variants}) }} "
                    f"ORDER BY ?s ?p ?o LIMIT {limit} OFFSET {offset}"
                )

            for rows in self._client.pages(page, ("s", "p", "o"), _MOST_NAMES):
                for subject, predicate, obj in self._bound(rows, ("s", "p", "o")):
                    self._add(subject, predicate.value, obj, see=False)

    # --- facts --------------------------------------------------------------------------------

    def _plain(self, prop: str) -> tuple[list[tuple[str, Any]], str | None]:
        pattern = f"?s <{prop}> ?o FILTER(isIRI(?s))"
        rows, end = self._rows(pattern, ("s", "o"), "?s ?o", needed=2)
        return [(row[0].value, (row[0], prop, row[1])) for row in rows], end

    def _reified(self, prop: str) -> tuple[list[tuple[str, Any]], str | None]:
        pattern = (
            f"?x <{STATEMENT_PREDICATE}> <{prop}> ; <{STATEMENT_SUBJECT}> ?s ; "
            f"<{STATEMENT_OBJECT}> ?o . OPTIONAL {{ ?x ?q ?v FILTER(isLiteral(?v)) }}"
        )
        rows, end = self._rows(pattern, ("s", "x", "o", "q", "v"), "?s ?x ?o ?q ?v", needed=3)
        named = self._named(prop)
        found: list[tuple[str, Any]] = []
        for subject, node, obj, qualifier, value in rows:
            about = subject.value
            found.append((about, (node, STATEMENT_SUBJECT, subject)))
            found.append((about, (node, STATEMENT_PREDICATE, named)))
            found.append((about, (node, STATEMENT_OBJECT, obj)))
            if qualifier is not None and not qualifier.value.startswith(RDF):
                found.append((about, (node, qualifier.value, value)))
        return found, end

    def _wikibase(self, base: str, name: str) -> tuple[list[tuple[str, Any]], str | None]:
        """Statements, not the `direct` triples: those leave out all but the best values."""
        pattern = (
            f"?s <{base}/prop/{name}> ?x . "
            f"OPTIONAL {{ ?x <{base}/prop/statement/{name}> ?o }} "
            f"OPTIONAL {{ ?x <{base}/prop/qualifier/P580> ?a }} "
            f"OPTIONAL {{ ?x <{base}/prop/qualifier/P582> ?b }} "
            f"OPTIONAL {{ ?x <{RANK}> ?r }}"
        )
        names = ("s", "x", "o", "a", "b", "r")
        rows, end = self._rows(pattern, names, "?s ?x ?o ?a ?b", needed=2)
        predicates = (
            f"{base}/prop/statement/{name}",
            f"{base}/prop/qualifier/P580",
            f"{base}/prop/qualifier/P582",
            RANK,
        )
        found: list[tuple[str, Any]] = []
        for subject, node, *values in rows:
            about = subject.value
            found.append((about, (subject, f"{base}/prop/{name}", node)))
            found += [
                (about, (node, predicate, value))
                for predicate, value in zip(predicates, values, strict=True)
                if value is not None
            ]
        return found, end

    def _rows(
        self, pattern: str, names: Sequence[str], order: str, *, needed: int
    ) -> tuple[list[Any], str | None]:
        """Rows, and the subject at which they were cut off; None when they are all.

        In each row, the first `needed` columns must be there.
        """
        variables = " ".join(f"?{name}" for name in names)

        def page(limit: int, offset: int) -> str:
            return (
                f"SELECT {variables} WHERE {{ {self._chosen}{pattern} }} ORDER BY {order} "
                f"LIMIT {limit} OFFSET {offset}"
            )

        rows: list[Any] = []
        for found in self._client.pages(page, names, self._settings.most_facts):
            rows += self._bound(found, names[:needed])
        cut = len(rows) >= self._settings.most_facts
        return rows, rows[-1][0].value if cut else None

    def _add(self, subject: Any, predicate: str, obj: Any, *, see: bool = True) -> None:
        self.builder.add(subject, predicate, obj)
        self.digest.update(f"{subject} <{predicate}> {obj}\n".encode())
        if see:
            for term in (subject, obj):
                if not hasattr(term, "datatype"):
                    self._see(term.value)
        if self._on_progress is not None and self.builder.triples % 1000 == 0:
            self._on_progress(self.builder.triples)

    def _see(self, iri: str) -> None:
        # Only what can be written into a query as it is. Statements have no names.
        if _IRI.fullmatch(iri) and "/entity/statement/" not in iri:
            self._seen.add(iri)

    def _named(self, iri: str) -> Any:
        return optional_import("pyoxigraph").NamedNode(iri)


def _checked(name: str) -> str:
    if re.fullmatch(r"P\d+", name):
        return _WIKIDATA + name
    if not _IRI.fullmatch(name):
        raise InputError(
            f"{name!r} is no IRI", where="--include", hint="http://…, or P19 for Wikidata's"
        )
    return name


def _is_statement_form(prop: str) -> bool:
    match = WIKIBASE_PROPERTY.fullmatch(prop)
    return "/prop/" in prop and (match is None or match.group(2) != "direct")
