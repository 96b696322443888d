"""A knowledge graph in memory: its terms, its facts, and names that are fit for questions.

A node is an IRI, or the kind of a value with its written form; see `kind_of`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import IntEnum
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from ....guard.text import clean_text
from ..rules import Rules

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
WIKIBASE = "http://wikiba.se/ontology#"

TYPE = RDF + "type"
STATEMENT_SUBJECT = RDF + "subject"
STATEMENT_PREDICATE = RDF + "predicate"
STATEMENT_OBJECT = RDF + "object"
RANK = WIKIBASE + "rank"
DEPRECATED = WIKIBASE + "DeprecatedRank"
PROPERTY_TYPE = WIKIBASE + "propertyType"

_RULES = Rules(__file__, "graph")
_RULE, _WORDS = _RULES.patterns, _RULES.words
INSTANCE_OF, WIKIBASE_OTHER = _RULE["instance_of"], _RULE["wikibase_other"]
WIKIBASE_PROPERTY = _RULE["wikibase_property"]
LABELS, ALIASES, VOCABULARIES = (
    tuple[str, ...](_RULES.table[name]) for name in ("labels", "aliases", "vocabularies")
)
_MOST_DIGITS = 30
# Zero-width joiners are part of words in Persian and in Indic scripts.
_JOINERS = frozenset("\u200c\u200d")


class Kind(IntEnum):
    """What a node is."""

    ENTITY = 0
    BLANK = 1
    YEAR = 2
    NUMBER = 3
    TEXT = 4


def year_of(text: str) -> int | None:
    """The year of a date or of a bare year; None before the year 1, and for what is none.

    Example:
        >>> year_of("1951-08-14T00:00:00Z"), year_of("+1951"), year_of("-0044"), year_of("soon")
        (1951, 1951, None, None)
    """
    match = _RULE["year"].fullmatch(text.strip())
    return (int(match.group(1)) or None) if match else None


def literal_node(text: str, datatype: str) -> str:
    """Return the node of a literal: a year, a number, or one node for all texts.

    Dates count by their year.

    Example:
        >>> written(literal_node("1951-08-14", XSD + "date"))
        '1951'
        >>> written(literal_node("+08.50", XSD + "decimal"))
        '8.5'
    """
    kind = datatype.removeprefix(XSD)
    if kind in _WORDS["years"] and (year := year_of(text)) is not None:
        return value_node(Kind.YEAR, str(year))
    if kind in _WORDS["numbers"] and (number := _number(text)) is not None:
        return value_node(Kind.NUMBER, number)
    return value_node(Kind.TEXT)


def _number(text: str) -> str | None:
    if len(text) > _MOST_DIGITS:
        return None
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
        return None
    written = f"{value:f}"
    written = written.rstrip("0").rstrip(".") if "." in written else written
    return "0" if written in {"-0", ""} else written


def clean_name(text: str) -> str:
    """A name in one line: without control, format and unassigned characters.

    Example:
        >>> clean_name("  Rill\\n\\u202etown\\x07 ")
        'Rill town'
    """
    cleaned = clean_text(text)
    if not cleaned.isascii() or not cleaned.isprintable():
        cleaned = "".join(
            " " if letter.isspace() else letter
            for letter in cleaned
            if letter.isspace() or letter in _JOINERS or unicodedata.category(letter)[0] != "C"
        )
    return " ".join(cleaned.split())


def folded(name: str) -> str:
    """A name as it is compared: compatibility forms, case and kinds of quotes aside."""
    return unicodedata.normalize("NFKC", name).casefold().replace("’", "'").strip()


def local_name(iri: str) -> str:
    """What follows the last `/`, `#` or `:` of an IRI."""
    return re.split(r"[/#:]", iri.rstrip("/#"))[-1]


def words_of(name: str) -> str:
    """A local name as words, where it consists of words.

    Example:
        >>> words_of("placeOfBirth"), words_of("birth_year"), words_of("P19")
        ('place of birth', 'birth year', '')
    """
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    joined = re.sub(r"[_\-. ]", "", name)
    return " ".join(part.lower() for part in parts) if "".join(parts) == joined else ""


_KINDS = {"_:": Kind.BLANK, '"y': Kind.YEAR, '"n': Kind.NUMBER, '""': Kind.TEXT}
_PREFIXES = {kind: prefix for prefix, kind in _KINDS.items()}


def value_node(kind: Kind, written: str = "") -> str:
    """Return the node of a value or of a blank node; its beginning tells it from an IRI."""
    return _PREFIXES[kind] + written


def kind_of(node: str) -> Kind:
    """Return what a node is.

    Example:
        >>> kind_of(value_node(Kind.YEAR, "1951")), kind_of("http://example.org/Rill")
        (<Kind.YEAR: 2>, <Kind.ENTITY: 0>)
    """
    return _KINDS.get(node[:2], Kind.ENTITY)


def written(node: str) -> str:
    """Return the IRI of an entity, or the written form of a value."""
    return node[2:] if node.startswith(('"y', '"n')) else node


class Span(NamedTuple):
    """A fact's value and the years in which it holds; None where the graph has no bound."""

    value: str
    start: int | None
    end: int | None


@dataclass(frozen=True)
class Facts:
    """All facts of one property.

    Attributes:
        pairs: subject and object of each, sorted; none twice.
        dated: subject → its dated facts, by start.
        doubtful: subjects of which not every value is known: one is a blank node, a deprecated
            statement or of another kind than the property's other values.
        kind: of most objects.
    """

    pairs: Sequence[tuple[str, str]]
    dated: Mapping[str, tuple[Span, ...]]
    doubtful: frozenset[str]
    kind: Kind

    @cached_property
    def by_subject(self) -> Mapping[str, tuple[str, ...]]:
        """Subject → its objects, both ascending."""
        return _grouped(self.pairs)

    @cached_property
    def by_value(self) -> Mapping[str, tuple[str, ...]]:
        """Object → the subjects with it, both ascending."""
        return _grouped(sorted((value, subject) for subject, value in self.pairs))

    @cached_property
    def values(self) -> Sequence[str]:
        """All objects, ascending."""
        return list(self.by_value)


@dataclass(frozen=True, slots=True)
class KnowledgeGraph:
    """Entities, values, their names and all facts, by property.

    Attributes:
        facts: property → its facts.
        labels: language → node → name.
        aliases: node → further names.
        identifiers: properties that the graph itself declares as identifiers, addresses or
            media.
        classes: node → the classes that the graph says it is of.
        links: node → every node that stands in a fact with it, by any property, either way round.
        triples: how many were read.
        source: name of the file or address.
        digest: sha256 of the file; of what was fetched, for an endpoint.
    """

    facts: Mapping[str, Facts]
    labels: Mapping[str, Mapping[str, str]]
    aliases: Mapping[str, Set[str]]
    identifiers: Set[str]
    classes: Mapping[str, Set[str]]
    links: Mapping[str, Set[str]]
    triples: int
    source: str
    digest: str

    def are_linked(self, one: str, other: str) -> bool:
        """Return whether two nodes stand in a fact together."""
        return other in self.links.get(one, ())


def _grouped(pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    return {
        key: tuple(value for _, value in found)
        for key, found in groupby(pairs, key=lambda pair: pair[0])
    }


_LONGEST_LABELS = 100
# Below this many letters, an alias is found within almost every name. Chinese says more in two.
_LEAST_LETTERS, _LEAST_SIGNS = 3, 2


class Labels:
    """Names for questions in all languages at once.

    Args:
        graph: with the names.
        languages: a node is fit for a question only when it has a name in each.
    """

    def __init__(self, graph: KnowledgeGraph, languages: Sequence[str]) -> None:
        self._graph, self._languages = graph, tuple(languages)
        self._labels = {
            language: {
                node: name for node, name in graph.labels[language].items() if _is_name(node, name)
            }
            for language in languages
        }
        self._folded: dict[str, frozenset[str]] = {}
        self._owners = _owners(graph)

    def label(self, node: str, language: str) -> str:
        """The name in a language; empty when there is none that is fit."""
        if kind_of(node) in (Kind.YEAR, Kind.NUMBER):
            return written(node)
        return self._labels[language].get(node, "")

    def fit(self, node: str) -> bool:
        """Whether the node has a name in every language."""
        return all(self.label(node, language) for language in self._languages)

    def unique(self, node: str) -> bool:
        """Whether none of its labels is also a name of another node.

        A question about one of two namesakes may be meant about the other.
        """
        names = (folded(self.label(node, language)) for language in self._languages)
        return all(self._owners.get(name, node) == node for name in names)

    def names(self, node: str) -> tuple[str, ...]:
        """Labels and aliases."""
        kind, value = kind_of(node), written(node)
        if kind in (Kind.NUMBER, Kind.YEAR):
            grouped = kind is Kind.NUMBER and value.isdecimal()
            return (value, f"{int(value):,}") if grouped else (value,)
        labels = [self.label(node, language) for language in self._languages]
        found = (*filter(None, labels), *sorted(self._graph.aliases.get(node, ())))
        return tuple(dict.fromkeys(found))

    def aliases(self, node: str, language: str) -> tuple[str, ...]:
        """Names beside the label in a language."""
        label = self.label(node, language)
        return tuple(name for name in self.names(node) if name != label)

    def same_name(self, left: Iterable[str], right: Iterable[str]) -> bool:
        """Whether a node of one side and one of the other share a name."""
        names = set[str]().union(*map(self._all_folded, left))
        return any(names & self._all_folded(node) for node in right)

    def overlap(self, one: str, other: str) -> bool:
        """Whether the two share a name, or one of their names is part of one of the other's."""
        left, right = self._all_folded(one), self._all_folded(other)
        if left & right:
            return True
        labels = {
            (folded(self.label(one, language)), folded(self.label(other, language)))
            for language in self._languages
        }
        if any(a in b or b in a for a, b in labels if a and b):
            return True
        return any((_long(a) and a in b) or (_long(b) and b in a) for a in left for b in right)

    def _all_folded(self, node: str) -> frozenset[str]:
        if node not in self._folded:
            self._folded[node] = frozenset(folded(name) for name in self.names(node))
        return self._folded[node]


def _is_name(node: str, name: str) -> bool:
    return (
        kind_of(node) is Kind.ENTITY
        and 0 < len(name) <= _LONGEST_LABELS
        and any(letter.isalnum() for letter in name)
        and name != node
        and not (name == local_name(node) and _RULE["code"].search(name))
        and folded(name) not in _WORDS["reserved"]
        and not _RULE["identifier"].fullmatch(name)
        and not _RULE["slot"].search(name)
        and "://" not in name
    )


def _owners(graph: KnowledgeGraph) -> dict[str, str]:
    """Folded name → the node that has it; empty where several do."""
    found: dict[str, str] = {}
    for node, names in graph.aliases.items():
        for name in {folded(name) for name in names}:
            found[name] = node if found.get(name, node) == node else ""
    return found


def _long(name: str) -> bool:
    return len(name) >= (_LEAST_LETTERS if name.isascii() else _LEAST_SIGNS)
