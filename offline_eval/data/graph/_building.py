"""Build a `KnowledgeGraph` from a stream of triples, in whatever order they come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from .graph import (
    ALIASES,
    DEPRECATED,
    INSTANCE_OF,
    LABELS,
    PROPERTY_TYPE,
    RANK,
    STATEMENT_OBJECT,
    STATEMENT_PREDICATE,
    STATEMENT_SUBJECT,
    TYPE,
    WIKIBASE_OTHER,
    WIKIBASE_PROPERTY,
    Facts,
    Kind,
    KnowledgeGraph,
    Span,
    clean_name,
    kind_of,
    literal_node,
    local_name,
    value_node,
    year_of,
)

# Qualifiers and properties that bound a statement in time, by their local names.
STARTS = frozenset({"P580", "start", "startDate", "startYear", "start_date", "from", "validFrom"})
ENDS = frozenset({"P582", "end", "endDate", "endYear", "end_date", "until", "validUntil"})
_MEDIA = frozenset({"ExternalId", "Url", "CommonsMedia", "GlobeCoordinate", "Math", "GeoShape"})
_ALIAS_RANK = len(LABELS)
_LONGEST_NAME = 200

Sets = defaultdict[str, set[str]]
Years = defaultdict[str, set[int | None]]
Rank = tuple[int, int, str]
# Each triple of these adds a node to those that stand by another.
_TABLES = (
    *(TYPE, RANK, PROPERTY_TYPE),
    *(STATEMENT_SUBJECT, STATEMENT_PREDICATE, STATEMENT_OBJECT),
)


class _Role(NamedTuple):
    """What the triples of a predicate say, by each field that is set.

    Attributes:
        name: the subject's name: how far from a preferred label.
        table: the object stands by the subject in the table of this predicate.
        fact: the property of a fact.
        head: the object is a statement about the subject, by this property.
        bound: `start` or `end` of what the subject states.
    """

    name: int | None = None
    table: str = ""
    fact: str = ""
    head: str = ""
    bound: str = ""


@lru_cache(maxsize=65536)
def _role(predicate: str) -> _Role:
    if predicate in LABELS or predicate in ALIASES:
        return _Role(LABELS.index(predicate) if predicate in LABELS else _ALIAS_RANK)
    if predicate in _TABLES or INSTANCE_OF.fullmatch(predicate):
        return _Role(table=predicate if predicate in _TABLES else TYPE)
    wikibase = WIKIBASE_PROPERTY.fullmatch(predicate)
    if wikibase is None and WIKIBASE_OTHER.fullmatch(predicate):
        return _Role()
    form, prop, name = wikibase[2] if wikibase else "direct", _property(predicate), ""
    if local_name(predicate) in STARTS | ENDS:
        name = "start" if local_name(predicate) in STARTS else "end"
    if form == "statement":
        return _Role(table=STATEMENT_OBJECT)
    if form == "qualifier":
        return _Role(bound=name)
    # The same property may also bound something that is no statement.
    return _Role(fact=prop, bound=name) if form else _Role(head=prop)


class GraphBuilder:
    """Collects triples of pyoxigraph's terms.

    Args:
        languages: in which names are kept.
        fallback: languages whose names stand in for missing ones, in order.
    """

    def __init__(self, languages: Sequence[str], fallback: Sequence[str] = ()) -> None:
        self._languages, self._fallback = tuple(languages), tuple(fallback)
        self._nodes: dict[str, str] = {}
        self._facts: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._tables = {predicate: Sets(set) for predicate in _TABLES}
        self._bounds = {"start": Years(set), "end": Years(set)}
        self._closeness: dict[str | None, dict[str, int]] = {}
        self._labels: dict[str, dict[str, Rank]] = {language: {} for language in languages}
        self._names = Sets(set)
        self.triples = 0

    def add(self, subject: Any, predicate: str, obj: Any) -> None:
        """Add one triple: terms of pyoxigraph, and the predicate's IRI."""
        self.triples += 1
        role = _role(predicate)
        if role == _Role():
            return
        if role.name is not None:
            self._name(subject, obj, role.name)
            return
        about, node = self._node(subject), self._node(obj)
        if role.table:
            self._tables[role.table][about].add(node)
        if role.fact:
            self._facts[role.fact].add((about, node))
        if role.head:
            self._tables[STATEMENT_SUBJECT][node].add(about)
            self._tables[STATEMENT_PREDICATE][node].add(role.head)
        if role.bound:
            year = year_of(obj.value) if hasattr(obj, "datatype") else None
            self._bounds[role.bound][about].add(year)

    def _name(self, subject: Any, obj: Any, role: int) -> None:
        if not hasattr(obj, "datatype"):
            return
        tag = obj.language
        if tag not in self._closeness:
            self._closeness[tag] = self._wanted(tag)
        name = clean_name(obj.value) if self._closeness[tag] else ""
        if not 0 < len(name) <= _LONGEST_NAME:
            return
        node = self._node(subject)
        self._names[node].add(name)
        if role == _ALIAS_RANK:
            return
        for language, closeness in self._closeness[tag].items():
            rank = closeness, role, name
            self._labels[language][node] = min(rank, self._labels[language].get(node, rank))

    def _wanted(self, tag: str | None) -> dict[str, int]:
        """The languages for which names with a tag count, and how far each is from it."""
        found = {}
        for language in self._languages:
            if tag is not None and tag.casefold() == language.casefold():
                found[language] = 0
            elif tag is not None and tag.casefold().startswith(language.casefold() + "-"):
                found[language] = 1
            elif tag is None or tag == "mul":
                found[language] = 2
            elif tag in self._fallback:
                found[language] = 3 + self._fallback.index(tag)
        return found

    def _node(self, term: Any) -> str:
        datatype = getattr(term, "datatype", None)
        value = getattr(term, "value", None)
        if datatype is not None:
            node = literal_node(term.value, datatype.value)
        elif value is None:  # a triple term
            node = value_node(Kind.TEXT)
        elif type(term).__name__ == "BlankNode" or "/.well-known/genid/" in value:
            node = value_node(Kind.BLANK, value)
        else:
            node = value
        # One text for all places in which the node stands.
        return self._nodes.setdefault(node, node)

    # --- the whole ----------------------------------------------------------------------------

    def build(self, source: str, digest: str) -> KnowledgeGraph:
        """Return the graph; the builder is used up."""
        facts: dict[str, set[tuple[str, str]]] = defaultdict(set)
        spans: dict[str, dict[str, set[Span]]] = defaultdict(lambda: defaultdict(set))
        doubtful = Sets(set)
        tables, starts, ends = self._tables, self._bounds["start"], self._bounds["end"]
        about, of, values = (
            tables[part] for part in (STATEMENT_SUBJECT, STATEMENT_PREDICATE, STATEMENT_OBJECT)
        )
        deprecated = {node for node, ranks in tables[RANK].items() if DEPRECATED in ranks}
        for prop, pairs in self._facts.items():
            facts[prop] |= {pair for pair in pairs if about.keys().isdisjoint(pair)}
        for statement in about.keys() & of.keys():
            subject, prop = min(about[statement]), _property(min(of[statement]))
            said = values.get(statement, ())
            # One that is withdrawn, or says nothing, such as "no value", leaves its values open.
            if len(said) != 1 or statement in deprecated:
                doubtful[prop].add(subject)
                continue
            (value,) = said
            facts[prop].add((subject, value))
            span = Span(value, _single(starts.get(statement, ())), _single(ends.get(statement, ())))
            spans[prop][subject].add(span)
        links = Sets(set)
        for pairs in facts.values():
            for subject, value in pairs:
                links[subject].add(value)
                links[value].add(subject)
        return KnowledgeGraph(
            facts={
                prop: _facts(pairs, spans[prop], doubtful[prop])
                for prop, pairs in sorted(facts.items())
                if pairs
            },
            labels={
                language: {node: rank[2] for node, rank in found.items()}
                for language, found in self._labels.items()
            },
            aliases={node: tuple(sorted(texts)) for node, texts in self._names.items()},
            identifiers=frozenset(
                node
                for node, types in tables[PROPERTY_TYPE].items()
                if any(local_name(name) in _MEDIA for name in types)
            ),
            classes={node: frozenset(names) for node, names in tables[TYPE].items()},
            links={node: frozenset(others) for node, others in links.items()},
            triples=self.triples,
            source=source,
            digest=digest,
        )


def _facts(
    pairs: Iterable[tuple[str, str]],
    spans: Mapping[str, set[Span]],
    doubtful: set[str],
) -> Facts:
    ordered = sorted(pairs)
    counts = Counter(kind_of(value) for _, value in ordered)
    kind = min(counts, key=lambda one: (-counts[one], one))
    others = {subject for subject, value in ordered if kind_of(value) is not kind}
    return Facts(
        pairs=ordered,
        dated={
            subject: tuple(
                sorted(found, key=lambda span: (span.start or 0, span.end or 0, span.value))
            )
            for subject, found in spans.items()
        },
        doubtful=frozenset(doubtful | others),
        kind=kind,
    )


def _single(years: Collection[int | None]) -> int | None:
    """The only year; None for none, and where there are several."""
    return next(iter(years)) if len(years) == 1 else None


def _property(iri: str) -> str:
    """All forms of a Wikibase property are one: its entity, which has the label."""
    match = WIKIBASE_PROPERTY.fullmatch(iri)
    return f"{match[1]}/entity/{match[3]}" if match else iri
