"""Build a `KnowledgeGraph` from a stream of triples.

Triples become whole numbers as they arrive. What is kept as text are IRIs, once each, and names
in the languages asked for.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._graph import (
    DEPRECATED,
    INSTANCE_OF,
    NO_YEAR,
    PROPERTY_TYPE,
    RANK,
    SAME_AS,
    STATEMENT_OBJECT,
    STATEMENT_PREDICATE,
    STATEMENT_SUBJECT,
    TYPE,
    WIKIBASE_OTHER,
    WIKIBASE_PROPERTY,
    Facts,
    Ids,
    Kind,
    KnowledgeGraph,
    literal_node,
    local_name,
    year_of,
)
from ._labels import NameReader

# Qualifiers and properties that bound a statement in time, by their local names.
STARTS = frozenset({"P580", "start", "startDate", "startYear", "start_date", "from", "validFrom"})
ENDS = frozenset({"P582", "end", "endDate", "endYear", "end_date", "until", "validUntil"})
_MEDIA = frozenset({"ExternalId", "Url", "CommonsMedia", "GlobeCoordinate", "Math", "GeoShape"})
_TEXT_NODE = '""'
# The first letter tells a value's node from an IRI.
_PREFIXES = {Kind.YEAR: '"y', Kind.NUMBER: '"n'}


class _Rows:
    """Columns of whole numbers, grown at the end."""

    def __init__(self, columns: int) -> None:
        self._columns = tuple(array("i") for _ in range(columns))

    def append(self, *values: int) -> None:
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)

    def arrays(self) -> list[Ids]:
        return [np.frombuffer(column, dtype=np.int32).copy() for column in self._columns]


class GraphBuilder:
    """Collects triples of pyoxigraph's terms.

    Args:
        languages: in which names are kept.
        fallback: languages whose names stand in for missing ones.
    """

    def __init__(self, languages: Sequence[str], fallback: Sequence[str] = ()) -> None:
        self._ids: dict[str, int] = {}
        self._kinds = array("B")
        self._names = NameReader(languages, fallback)
        self._facts, self._typed, self._same = _Rows(3), _Rows(2), _Rows(2)
        self._heads, self._bodies = _Rows(3), _Rows(2)
        self._starts, self._ends = _Rows(2), _Rows(2)
        self._deprecated: set[int] = set()
        self._identifiers: set[int] = set()
        self._handlers: dict[str, Any] = {}
        self._statement_predicates = _Rows(2)
        self._partial: set[str] = set()
        self.triples = 0

    def add(self, subject: Any, predicate: str, obj: Any) -> None:
        """One triple: terms of pyoxigraph, and the predicate's IRI."""
        self.triples += 1
        handler = self._handlers.get(predicate)
        if handler is None:
            handler = self._handlers[predicate] = self._handler(predicate)
        if handler is not _skip:
            handler(subject, obj)

    def mark_partial(self, prop: str) -> None:
        """Say that only a part of a property's facts is here."""
        self._partial.add(_property(prop))

    # --- one triple ---------------------------------------------------------------------------

    def _handler(self, predicate: str) -> Any:
        role = self._names.role(predicate)
        if role is not None:
            rank = role
            return lambda s, o: self._name(s, o, rank)
        if predicate == TYPE or INSTANCE_OF.fullmatch(predicate):
            return lambda s, o: self._pair(self._typed, s, o)
        if predicate == SAME_AS:
            return lambda s, o: self._pair(self._same, s, o)
        if predicate == STATEMENT_SUBJECT:
            return lambda s, o: self._heads.append(self._node(s), self._node(o), -1)
        if predicate == STATEMENT_PREDICATE:
            return lambda s, o: self._statement_predicates.append(
                self._node(s), self._iri(_property(_value(o)))
            )
        if predicate == STATEMENT_OBJECT:
            return lambda s, o: self._bodies.append(self._node(s), self._node(o))
        if predicate == RANK:
            return self._rank
        if predicate == PROPERTY_TYPE:
            return self._property_type
        return self._other_handler(predicate)

    def _other_handler(self, predicate: str) -> Any:
        wikibase = WIKIBASE_PROPERTY.fullmatch(predicate)
        name = local_name(predicate)
        if wikibase is None and WIKIBASE_OTHER.fullmatch(predicate):
            return _skip
        form = wikibase.group(2) if wikibase else "direct"
        prop = self._iri(_property(predicate)) if form != "qualifier" else -1
        if form is None:
            return lambda s, o: self._heads.append(self._node(o), self._node(s), prop)
        if form == "statement":
            return lambda s, o: self._bodies.append(self._node(s), self._node(o))
        if name in STARTS or name in ENDS:
            rows = self._starts if name in STARTS else self._ends
            if form == "qualifier":
                return lambda s, o: self._bound(rows, s, o)
            return lambda s, o: self._bound_or_fact(rows, s, prop, o)
        if form == "qualifier":
            return _skip
        return lambda s, o: self._fact(s, prop, o)

    def _fact(self, subject: Any, prop: int, obj: Any) -> None:
        self._facts.append(self._node(subject), prop, self._node(obj))

    def _bound_or_fact(self, rows: _Rows, subject: Any, prop: int, obj: Any) -> None:
        # The same property may also bound something that is no statement.
        self._bound(rows, subject, obj)
        self._fact(subject, prop, obj)

    def _pair(self, rows: _Rows, subject: Any, obj: Any) -> None:
        rows.append(self._node(subject), self._node(obj))

    def _name(self, subject: Any, obj: Any, rank: int) -> None:
        language = getattr(obj, "language", None)
        if hasattr(obj, "datatype") and self._names.wants(language):
            self._names.add(self._node(subject), obj.value, language, rank)

    def _bound(self, rows: _Rows, subject: Any, obj: Any) -> None:
        year = year_of(obj.value) if hasattr(obj, "datatype") else None
        rows.append(self._node(subject), NO_YEAR if year is None else year)

    def _rank(self, subject: Any, obj: Any) -> None:
        if _value(obj) == DEPRECATED:
            self._deprecated.add(self._node(subject))

    def _property_type(self, subject: Any, obj: Any) -> None:
        if local_name(_value(obj)) in _MEDIA:
            self._identifiers.add(self._node(subject))

    def _node(self, term: Any) -> int:
        datatype = getattr(term, "datatype", None)
        if datatype is not None:
            kind, written = literal_node(term.value, datatype.value)
            key = _TEXT_NODE if kind is Kind.TEXT else _PREFIXES[kind] + written
            return self._intern(key, kind)
        value = getattr(term, "value", None)
        if value is None:  # a triple term
            return self._intern(_TEXT_NODE, Kind.TEXT)
        if type(term).__name__ == "BlankNode" or "/.well-known/genid/" in value:
            return self._intern("_:" + value, Kind.BLANK)
        return self._iri(value)

    def _iri(self, value: str) -> int:
        return self._intern(value, Kind.ENTITY)

    def _intern(self, key: str, kind: Kind) -> int:
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self._ids)
            self._kinds.append(kind)
        return known

    # --- the whole ----------------------------------------------------------------------------

    def build(self, source: str, digest: str) -> KnowledgeGraph:
        """The graph; the builder is used up.

        The order of the triples makes no difference.
        """
        keys = list(self._ids)
        order = sorted(range(len(keys)), key=keys.__getitem__)
        rank = np.empty(len(keys) + 1, dtype=np.int32)
        rank[np.asarray(order, dtype=np.int64)] = np.arange(len(keys), dtype=np.int32)
        rank[-1] = -1  # of "none", which is -1
        self._ids = {}
        nodes = [keys[at] for at in order]
        kinds = np.frombuffer(self._kinds, dtype=np.uint8)[np.asarray(order, dtype=np.int64)]
        same = [rank[column] for column in self._same.arrays()]
        merged = _merged(len(nodes), same[0], same[1])
        rank[:-1] = merged[rank[:-1]]
        partial = {int(rank[at]) for at, key in enumerate(keys) if key in self._partial}
        del keys
        subjects, props, objects = (rank[column] for column in self._facts.arrays())
        dated, deprecated, is_statement = self._statements(rank, len(nodes))
        own = ~is_statement[subjects] & ~is_statement[objects]
        subjects = np.concatenate([subjects[own], dated[0]])
        props = np.concatenate([props[own], dated[1]])
        objects = np.concatenate([objects[own], dated[2]])
        facts = _by_property(subjects, props, objects, dated, deprecated, kinds, partial)
        typed = [rank[column] for column in self._typed.arrays()]
        links = _grouped(
            len(nodes), np.concatenate([subjects, objects]), np.concatenate([objects, subjects])
        )
        classes = _grouped(len(nodes), typed[0], typed[1])
        labels, aliases = self._names.chosen(rank)
        labels_by_node = [key[2:] if key.startswith(('"y', '"n')) else key for key in nodes]
        return KnowledgeGraph(
            nodes=labels_by_node,
            kinds=kinds,
            facts=facts,
            labels=labels,
            aliases=aliases,
            identifiers=frozenset(int(rank[node]) for node in self._identifiers),
            triples=self.triples,
            source=source,
            digest=digest,
            class_starts=classes[0],
            class_members=classes[1],
            link_starts=links[0],
            link_members=links[1],
        )

    def _statements(
        self, rank: Ids, n: int
    ) -> tuple[tuple[Ids, Ids, Ids, Ids, Ids], tuple[Ids, Ids], NDArray[np.bool_]]:
        """Dated facts, the (property, subject) of deprecated ones, and which nodes are statements.

        Statements without any bound are dated facts as well: it is not known when they hold.
        """
        node, subject, named = (rank[column] for column in self._heads.arrays())
        about = _single(n, node, subject)
        more = [rank[column] for column in self._statement_predicates.arrays()]
        prop = _single(
            n,
            np.concatenate([node[named >= 0], more[0]]),
            np.concatenate([named[named >= 0], more[1]]),
        )
        node, obj = (rank[column] for column in self._bodies.arrays())
        value = _single(n, node, obj, several=-1)
        start, end = (
            _single(n, rank[node], year, several=NO_YEAR)
            for node, year in (self._starts.arrays(), self._ends.arrays())
        )
        is_statement = about >= 0
        whole = np.flatnonzero(is_statement & (prop >= 0) & (value >= 0))
        rejected = np.isin(
            whole, np.fromiter((rank[node] for node in self._deprecated), dtype=np.int64)
        )
        bad, kept = whole[rejected], whole[~rejected]
        # A head whose body says nothing, such as "no value", leaves its values open.
        bad = np.concatenate([bad, np.flatnonzero(is_statement & (prop >= 0) & (value < 0))])
        dated = (
            about[kept],
            prop[kept],
            value[kept],
            np.maximum(start[kept], NO_YEAR),
            np.maximum(end[kept], NO_YEAR),
        )
        return dated, (prop[bad], about[bad]), is_statement


def _single(n: int, nodes: Ids, values: Ids, several: int | None = None) -> Ids:
    """Every node's value, -1 without one; of different ones the least, or `several`."""
    order = np.lexsort((values, nodes))
    nodes, values = nodes[order], values[order]
    again = nodes[1:] == nodes[:-1]
    found = np.full(n, -1, dtype=np.int32)
    first = np.ones(len(nodes), dtype=np.bool_)
    first[1:] = ~again
    found[nodes[first]] = values[first]
    if several is not None:
        found[nodes[1:][again & (values[1:] != values[:-1])]] = several
    return found


def _skip(_subject: Any, _obj: Any) -> None:
    """For predicates that say nothing here."""


def _value(term: Any) -> str:
    return str(getattr(term, "value", ""))


def _property(iri: str) -> str:
    """All forms of a Wikibase property are one: its entity, which has the label."""
    match = WIKIBASE_PROPERTY.fullmatch(iri)
    return f"{match.group(1)}/entity/{match.group(3)}" if match else iri


def _merged(n: int, left: Ids, right: Ids) -> Ids:
    """Every node's stand-in: the first of all that are the same."""
    parent = np.arange(n, dtype=np.int32)

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = int(parent[node])
        return node

    for a, b in zip(left.tolist(), right.tolist(), strict=True):
        one, other = sorted((root(a), root(b)))
        parent[other] = one
    for node in {*left.tolist(), *right.tolist()}:
        parent[node] = root(node)
    return parent


def _grouped(n: int, keys: Ids, members: Ids) -> tuple[NDArray[np.int64], Ids]:
    order = np.lexsort((members, keys))
    starts = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys, minlength=n), out=starts[1:])
    return starts, members[order]


def _by_property(
    subjects: Ids,
    props: Ids,
    objects: Ids,
    dated: Sequence[Ids],
    deprecated: Sequence[Ids],
    kinds: NDArray[np.uint8],
    partial: set[int],
) -> dict[int, Facts]:
    order = np.lexsort((objects, subjects, props))
    subjects, props, objects = subjects[order], props[order], objects[order]
    new = np.ones(len(props), dtype=np.bool_)
    new[1:] = (np.diff(props) != 0) | (np.diff(subjects) != 0) | (np.diff(objects) != 0)
    subjects, props, objects = subjects[new], props[new], objects[new]
    span_order = np.lexsort((dated[4], dated[3], dated[2], dated[0], dated[1]))
    spans = [column[span_order] for column in dated]
    found = {}
    for prop in np.unique(props).tolist():
        low, high = np.searchsorted(props, (prop, prop + 1))
        first, last = np.searchsorted(spans[1], (prop, prop + 1))
        own_subjects, own_objects = subjects[low:high], objects[low:high]
        held = np.lexsort((own_subjects, own_objects))
        object_kinds = kinds[own_objects]
        kind = Kind(int(np.bincount(object_kinds).argmax()))
        doubtful: Iterable[Ids] = (
            own_subjects[object_kinds != kind],
            deprecated[1][deprecated[0] == prop],
        )
        found[int(prop)] = Facts(
            subjects=own_subjects,
            objects=own_objects,
            held_objects=own_objects[held],
            held_subjects=own_subjects[held],
            span_subjects=spans[0][first:last],
            span_values=spans[2][first:last],
            span_starts=spans[3][first:last],
            span_ends=spans[4][first:last],
            doubtful=np.unique(np.concatenate(list(doubtful))),
            kind=kind,
            complete=int(prop) not in partial,
        )
    return found


def digest_of(lines: Iterable[bytes]) -> str:
    """sha256 of parts put together."""
    found = hashlib.sha256()
    for line in lines:
        found.update(line)
    return found.hexdigest()
