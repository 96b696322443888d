"""Build a `KnowledgeGraph` from a stream of triples, in whatever order they come."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .graph import (
    ALIASES,
    DEPRECATED,
    INSTANCE_OF,
    LABELS,
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

Handler = Callable[[Any, Any], object]
Sets = defaultdict[str, set[str]]
Rank = tuple[int, int, str]


class GraphBuilder:
    """Collects triples of pyoxigraph's terms.

    Args:
        languages: in which names are kept.
        fallback: languages whose names stand in for missing ones, in order.
    """

    def __init__(self, languages: Sequence[str], fallback: Sequence[str] = ()) -> None:
        self._languages, self._fallback = tuple(languages), tuple(fallback)
        self._handlers: dict[str, Handler | None] = {}
        self._nodes: dict[str, str] = {}
        self._facts: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._classes, self._same = Sets(set), Sets(set)
        # Of statements: what they are about, by which property, what they say, from when to when.
        self._about, self._property, self._value = Sets(set), Sets(set), Sets(set)
        self._starts: dict[str, set[int | None]] = defaultdict(set)
        self._ends: dict[str, set[int | None]] = defaultdict(set)
        self._deprecated: set[str] = set()
        self._identifiers: set[str] = set()
        self._partial: set[str] = set()
        self._closeness: dict[str | None, dict[str, int]] = {}
        self._labels: dict[str, dict[str, Rank]] = {language: {} for language in languages}
        self._names = Sets(set)
        self.triples = 0

    def add(self, subject: Any, predicate: str, obj: Any) -> None:
        """Add one triple: terms of pyoxigraph, and the predicate's IRI."""
        self.triples += 1
        if predicate not in self._handlers:
            self._handlers[predicate] = self._handler(predicate)
        handler = self._handlers[predicate]
        if handler is not None:
            handler(subject, obj)

    def mark_partial(self, prop: str) -> None:
        """Note that only a part of a property's facts is here."""
        self._partial.add(_property(prop))

    # --- one triple ---------------------------------------------------------------------------

    def _handler(self, predicate: str) -> Handler | None:
        """What to do with the triples of a predicate; None for those that say nothing here."""
        if predicate in LABELS or predicate in ALIASES:
            role = LABELS.index(predicate) if predicate in LABELS else _ALIAS_RANK
            return lambda s, o: self._name(s, o, role)
        if predicate == TYPE or INSTANCE_OF.fullmatch(predicate):
            return self._pairs(self._classes)
        if predicate == RANK:
            return self._rank
        if predicate == PROPERTY_TYPE:
            return self._property_type
        if predicate == STATEMENT_PREDICATE:
            return lambda s, o: self._property[self._node(s)].add(_property(_value(o)))
        known = {
            SAME_AS: self._same,
            STATEMENT_SUBJECT: self._about,
            STATEMENT_OBJECT: self._value,
        }
        return self._pairs(known[predicate]) if predicate in known else self._further(predicate)

    def _further(self, predicate: str) -> Handler | None:
        wikibase = WIKIBASE_PROPERTY.fullmatch(predicate)
        if wikibase is None and WIKIBASE_OTHER.fullmatch(predicate):
            return None
        form, prop = wikibase[2] if wikibase else "direct", _property(predicate)
        if form is None:
            return lambda s, o: self._head(self._node(o), s, prop)
        if form == "statement":
            return self._pairs(self._value)
        name = local_name(predicate)
        bounds = self._starts if name in STARTS else self._ends if name in ENDS else None
        if form == "qualifier":
            return None if bounds is None else lambda s, o: self._bound(bounds, s, o)
        if bounds is None:
            return lambda s, o: self._fact(s, prop, o)
        # The same property may also bound something that is no statement.
        return lambda s, o: self._bound_and_fact(bounds, s, prop, o)

    def _pairs(self, into: Sets) -> Handler:
        return lambda s, o: into[self._node(s)].add(self._node(o))

    def _fact(self, subject: Any, prop: str, obj: Any) -> None:
        self._facts[prop].add((self._node(subject), self._node(obj)))

    def _head(self, statement: str, subject: Any, prop: str) -> None:
        self._about[statement].add(self._node(subject))
        self._property[statement].add(prop)

    def _bound(self, bounds: dict[str, set[int | None]], subject: Any, obj: Any) -> None:
        year = year_of(obj.value) if hasattr(obj, "datatype") else None
        bounds[self._node(subject)].add(year)

    def _bound_and_fact(
        self, bounds: dict[str, set[int | None]], subject: Any, prop: str, obj: Any
    ) -> None:
        self._bound(bounds, subject, obj)
        self._fact(subject, prop, obj)

    def _rank(self, subject: Any, obj: Any) -> None:
        if _value(obj) == DEPRECATED:
            self._deprecated.add(self._node(subject))

    def _property_type(self, subject: Any, obj: Any) -> None:
        if local_name(_value(obj)) in _MEDIA:
            self._identifiers.add(self._node(subject))

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
        same = _stand_ins(self._same)

        def one(node: str) -> str:
            return same.get(node, node)

        facts: dict[str, set[tuple[str, str]]] = defaultdict(set)
        spans: dict[str, dict[str, set[Span]]] = defaultdict(lambda: defaultdict(set))
        doubtful = Sets(set)
        statements = {one(node) for node in self._about}
        for prop, pairs in self._facts.items():
            plain = {(one(subject), one(value)) for subject, value in pairs}
            facts[one(prop)] |= {
                pair for pair in plain if pair[0] not in statements and pair[1] not in statements
            }
        deprecated = {one(node) for node in self._deprecated}
        about, of, values, starts, ends = (
            _renamed(table, same)
            for table in (self._about, self._property, self._value, self._starts, self._ends)
        )
        for statement in about.keys() & of.keys():
            subject, prop = one(min(about[statement])), one(min(of[statement]))
            said = {one(value) for value in values.get(statement, ())}
            # One that is withdrawn, or says nothing, such as "no value", leaves its values open.
            if len(said) != 1 or statement in deprecated:
                doubtful[prop].add(subject)
                continue
            (value,) = said
            facts[prop].add((subject, value))
            span = Span(value, _single(starts.get(statement)), _single(ends.get(statement)))
            spans[prop][subject].add(span)
        partial = {one(prop) for prop in self._partial}
        labels, aliases = self._chosen_names(same)
        links = Sets(set)
        for pairs in facts.values():
            for subject, value in pairs:
                links[subject].add(value)
                links[value].add(subject)
        return KnowledgeGraph(
            facts={
                prop: _facts(pairs, spans[prop], doubtful[prop], complete=prop not in partial)
                for prop, pairs in sorted(facts.items())
                if pairs
            },
            labels=labels,
            aliases=aliases,
            identifiers=frozenset(one(node) for node in self._identifiers),
            classes={
                node: frozenset(one(name) for name in names)
                for node, names in _renamed(self._classes, same).items()
            },
            links={node: frozenset(others) for node, others in links.items()},
            triples=self.triples,
            source=source,
            digest=digest,
        )

    def _chosen_names(
        self, same: Mapping[str, str]
    ) -> tuple[dict[str, dict[str, str]], dict[str, tuple[str, ...]]]:
        """Labels by language, and all names; nodes that are the same share their names."""
        labels: dict[str, dict[str, str]] = {}
        for language, found in self._labels.items():
            best: dict[str, Rank] = {}
            for node, rank in found.items():
                stand_in = same.get(node, node)
                best[stand_in] = min(rank, best.get(stand_in, rank))
            labels[language] = {node: rank[2] for node, rank in best.items()}
        names = _renamed(self._names, same)
        return labels, {node: tuple(sorted(texts)) for node, texts in names.items()}


def _facts(
    pairs: Iterable[tuple[str, str]],
    spans: Mapping[str, set[Span]],
    doubtful: set[str],
    *,
    complete: bool,
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
        complete=complete,
    )


def _stand_ins(same: Mapping[str, set[str]]) -> dict[str, str]:
    """Every node's stand-in: the first of all that are the same."""
    found: dict[str, str] = {}

    def first(node: str) -> str:
        while found.get(node, node) != node:
            found[node] = found.get(found[node], found[node])
            node = found[node]
        return node

    for node, others in same.items():
        for other in others:
            one, another = sorted((first(node), first(other)))
            found[another] = one
    return {node: first(node) for node in found}


def _renamed(table: Mapping[str, set[Any]], same: Mapping[str, str]) -> dict[str, set[Any]]:
    """A table with stand-ins in place of its keys."""
    found: dict[str, set[Any]] = {}
    for node, values in table.items():
        found.setdefault(same.get(node, node), set()).update(values)
    return found


def _single(years: Iterable[int | None] | None) -> int | None:
    """The only year; None for none, and where there are several."""
    found = list(years or ())
    return found[0] if len(found) == 1 else None


def _value(term: Any) -> str:
    return str(getattr(term, "value", ""))


def _property(iri: str) -> str:
    """All forms of a Wikibase property are one: its entity, which has the label."""
    match = WIKIBASE_PROPERTY.fullmatch(iri)
    return f"{match[1]}/entity/{match[3]}" if match else iri
