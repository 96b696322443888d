"""Build a `KnowledgeGraph` from a stream of triples, in whatever order they come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

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
# Triples between two calls of who watches.
_STEP = 1000

Progress = Callable[[int], None]
Sets = defaultdict[str, set[str]]
Rank = tuple[int, int, str]
# What the triples of a predicate say, and of what.
Role = tuple[str, str]
_NAME, _FACT, _HEAD, _START, _END = "name", "fact", "head", ("start", ""), ("end", "")
# Each triple of these adds a node to those that stand by another.
_TABLES: dict[str, Role] = {
    predicate: (predicate, "")
    for predicate in (
        *(TYPE, RANK, PROPERTY_TYPE),
        *(STATEMENT_SUBJECT, STATEMENT_PREDICATE, STATEMENT_OBJECT),
    )
}


@lru_cache(maxsize=65536)
def _roles(predicate: str) -> tuple[Role, ...]:
    """What is said: a name, a fact, the head or a bound of a statement, or a line of a table."""
    if predicate in LABELS or predicate in ALIASES:
        rank = LABELS.index(predicate) if predicate in LABELS else _ALIAS_RANK
        return ((_NAME, str(rank)),)
    if predicate in _TABLES or INSTANCE_OF.fullmatch(predicate):
        return (_TABLES.get(predicate, _TABLES[TYPE]),)
    wikibase = WIKIBASE_PROPERTY.fullmatch(predicate)
    if wikibase is None and WIKIBASE_OTHER.fullmatch(predicate):
        return ()
    form, name = wikibase[2] if wikibase else "direct", local_name(predicate)
    bounds = (_START,) if name in STARTS else (_END,) if name in ENDS else ()
    if form == "statement":
        return (_TABLES[STATEMENT_OBJECT],)
    if form == "qualifier":
        return bounds
    # The same property may also bound something that is no statement.
    return (((_FACT if form else _HEAD), property_entity(predicate)), *(bounds if form else ()))


class GraphBuilder:
    """Collects triples of pyoxigraph's terms.

    Args:
        languages: in which names are kept.
        fallback: languages whose names stand in for missing ones, in order.
        on_progress: called with the number of triples so far.
    """

    def __init__(
        self,
        languages: Sequence[str],
        fallback: Sequence[str],
        on_progress: Progress | None,
    ) -> None:
        self.languages, self.fallback = tuple(languages), tuple(fallback)
        self._on_progress = on_progress
        self._nodes: dict[str, str] = {}
        # By role: a node, and all that is said of it; of bounds as written.
        self._said: defaultdict[Role, Sets] = defaultdict(lambda: defaultdict(set))
        self._closeness: dict[str | None, dict[str, int]] = {}
        self._labels: dict[str, dict[str, Rank]] = {language: {} for language in languages}
        self._names = Sets(set)
        self.triples = 0

    def add(self, subject: Any, predicate: str, obj: Any) -> None:
        """Add one triple: terms of pyoxigraph, and the predicate's IRI."""
        self.triples += 1
        if self._on_progress is not None and self.triples % _STEP == 0:
            self._on_progress(self.triples)
        for role in _roles(predicate):
            if role[0] == _NAME:
                self._name(subject, obj, int(role[1]))
            elif role in (_START, _END):
                year = obj.value if hasattr(obj, "datatype") else ""
                self._said[role][self._node(subject)].add(year)
            elif role[0] == _HEAD:
                statement = self._node(obj)
                self._said[_TABLES[STATEMENT_SUBJECT]][statement].add(self._node(subject))
                self._said[_TABLES[STATEMENT_PREDICATE]][statement].add(role[1])
            else:
                self._said[role][self._node(subject)].add(self._node(obj))

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
        for language in self.languages:
            if tag is not None and tag.casefold() == language.casefold():
                found[language] = 0
            elif tag is not None and tag.casefold().startswith(language.casefold() + "-"):
                found[language] = 1
            elif tag is None or tag == "mul":
                found[language] = 2
            elif tag in self.fallback:
                found[language] = 3 + self.fallback.index(tag)
        return found

    def _node(self, term: Any) -> str:
        datatype = getattr(term, "datatype", None)
        value = getattr(term, "value", None)
        if datatype is not None:
            node = literal_node(term.value, datatype.value)
        elif value is None:
            # A triple term.
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
        facts: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        spans: defaultdict[str, dict[str, set[Span]]] = defaultdict(lambda: defaultdict(set))
        doubtful = Sets(set)
        types, ranks, media, about, of, values = (self._said[role] for role in _TABLES.values())
        for (role, prop), said in self._said.items():
            if role == _FACT:
                stated = ((subject, value) for subject, found in said.items() for value in found)
                facts[prop] |= {pair for pair in stated if about.keys().isdisjoint(pair)}
        for statement in about.keys() & of.keys():
            subject, prop = min(about[statement]), property_entity(min(of[statement]))
            found = values.get(statement, ())
            # One that is withdrawn, or says nothing, such as "no value", leaves its values open.
            if len(found) != 1 or DEPRECATED in ranks.get(statement, ()):
                doubtful[prop].add(subject)
                continue
            (value,) = found
            facts[prop].add((subject, value))
            bounds = (_year(self._said[bound].get(statement, ())) for bound in (_START, _END))
            spans[prop][subject].add(Span(value, *bounds))
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
            aliases=self._names,
            identifiers={
                node for node, kinds in media.items() if _MEDIA & {local_name(one) for one in kinds}
            },
            classes=types,
            links=links,
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


def _year(texts: Collection[str]) -> int | None:
    """The only year; None for none, and where there are several."""
    years = {year_of(text) for text in texts}
    return years.pop() if len(years) == 1 else None


def property_entity(iri: str) -> str:
    """All forms of a Wikibase property are one: its entity, which has the label."""
    match = WIKIBASE_PROPERTY.fullmatch(iri)
    return f"{match[1]}/entity/{match[3]}" if match else iri
