"""A knowledge graph in memory: whole numbers in sorted arrays, texts only for names.

Built once, by `GraphBuilder`; every look-up is a binary search.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....guard.errors import KnowgateError
from ....guard.text import clean_text

if TYPE_CHECKING:
    pass


class SparqlError(KnowgateError):
    """The endpoint did not answer as it should."""


class SparqlTimeoutError(SparqlError):
    """No answer before the deadline."""


class SparqlStatusError(SparqlError):
    """An HTTP status that says no.

    Attributes:
        status_code: as answered.
    """

    def __init__(self, message: str, status_code: int) -> None:
        self.status_code = status_code
        super().__init__(message)


class SparqlTooLargeError(SparqlError):
    """An answer larger than allowed."""


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
XSD = "http://www.w3.org/2001/XMLSchema#"
WIKIBASE = "http://wikiba.se/ontology#"

TYPE = RDF + "type"
SAME_AS = OWL + "sameAs"
STATEMENT_SUBJECT = RDF + "subject"
STATEMENT_PREDICATE = RDF + "predicate"
STATEMENT_OBJECT = RDF + "object"
RANK = WIKIBASE + "rank"
DEPRECATED = WIKIBASE + "DeprecatedRank"
PROPERTY_TYPE = WIKIBASE + "propertyType"
INSTANCE_OF = re.compile(r"https?://.+/prop/direct/P31$")
WIKIBASE_PROPERTY = re.compile(r"(https?://.+)/prop/(?:(direct|statement|qualifier)/)?(P\d+)$")
WIKIBASE_OTHER = re.compile(r"https?://.+/prop/[a-z-]+(?:/[a-z-]+)*/P\d+$")

# In the order in which they are preferred.
LABELS = (
    RDFS + "label",
    SKOS + "prefLabel",
    "http://schema.org/name",
    "https://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
)
ALIASES = (
    SKOS + "altLabel",
    "http://schema.org/alternateName",
    "https://schema.org/alternateName",
)
VOCABULARIES = (RDF, RDFS, OWL, SKOS, WIKIBASE, "http://www.w3.org/ns/shacl#")

_YEARS = frozenset({XSD + "gYear", XSD + "gYearMonth", XSD + "date", XSD + "dateTime"})
_NUMBERS = frozenset(
    XSD + name
    for name in [
        "integer",
        "decimal",
        "double",
        "float",
        "int",
        "long",
        "short",
        "byte",
        "nonNegativeInteger",
        "positiveInteger",
        "unsignedInt",
        "unsignedLong",
        "unsignedShort",
        "unsignedByte",
        "nonPositiveInteger",
        "negativeInteger",
    ]
)
_YEAR = re.compile(r"\+?(\d{4,6})(?:-\d\d(?:-\d\d(?:T.*)?)?)?(?:Z|[+-]\d\d:\d\d)?$")
_MOST_DIGITS = 30
# Zero-width joiners are part of words in Persian and in Indic scripts.
_JOINERS = frozenset("\u200c\u200d")
_SPACES = re.compile(r"\s+")


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
    match = _YEAR.fullmatch(text.strip())
    return (int(match.group(1)) or None) if match else None


def literal_node(text: str, datatype: str) -> tuple[Kind, str]:
    """A literal's kind and how it is written in questions; texts are all one node.

    Dates count by their year.

    Example:
        >>> literal_node("1951-08-14", XSD + "date"), literal_node("+08.50", XSD + "decimal")
        ((<Kind.YEAR: 2>, '1951'), (<Kind.NUMBER: 3>, '8.5'))
    """
    if datatype in _YEARS:
        year = year_of(text)
        return (Kind.TEXT, "") if year is None else (Kind.YEAR, str(year))
    if datatype in _NUMBERS:
        number = _number(text)
        return (Kind.TEXT, "") if number is None else (Kind.NUMBER, number)
    return Kind.TEXT, ""


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
    return _SPACES.sub(" ", cleaned).strip()


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


Ids = NDArray[np.int32]
NO_YEAR = 0
"""A bound that is not stated, in arrays of years."""


class Span(NamedTuple):
    """A fact's value and the years in which it holds; None where the graph has no bound."""

    value: int
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of one property.

    Attributes:
        subjects, objects: sorted by subject, then object; no pair twice.
        held_objects, held_subjects: the same facts, sorted by object, then subject.
        span_subjects, span_values, span_starts, span_ends: dated facts, sorted alike;
            `NO_YEAR` where a bound is missing.
        doubtful: subjects, sorted, of which not every value is known: one is a blank node,
            a deprecated statement or of another kind than the property's other values.
        kind: of most objects.
        complete: whether the graph has all of the property's facts about its subjects'
            objects, too; False where only a part was fetched.
    """

    subjects: Ids
    objects: Ids
    held_objects: Ids
    held_subjects: Ids
    span_subjects: Ids
    span_values: Ids
    span_starts: Ids
    span_ends: Ids
    doubtful: Ids
    kind: Kind
    complete: bool = True

    def values(self, subject: int) -> Ids:
        """The objects of a subject, ascending."""
        low, high = self.subjects.searchsorted(_between(subject))
        return self.objects[low:high]

    def holders(self, value: int) -> Ids:
        """The subjects with an object, ascending."""
        low, high = self.held_objects.searchsorted(_between(value))
        return self.held_subjects[low:high]

    def spans(self, subject: int) -> tuple[Span, ...]:
        """The dated facts of a subject, by start."""
        low, high = self.span_subjects.searchsorted(_between(subject))
        found = [
            Span(int(value), int(start) or None, int(end) or None)
            for value, start, end in zip(
                self.span_values[low:high],
                self.span_starts[low:high],
                self.span_ends[low:high],
                strict=True,
            )
        ]
        return tuple(
            sorted(set(found), key=lambda span: (span.start or 0, span.end or 0, span.value))
        )

    def is_doubtful(self, subject: int) -> bool:
        """Whether a value of this subject is unknown or disputed."""
        at = int(np.searchsorted(self.doubtful, subject))
        return at < len(self.doubtful) and int(self.doubtful[at]) == subject


@dataclass(frozen=True, slots=True)
class KnowledgeGraph:
    """Entities, values, their names and all facts, by property.

    Attributes:
        nodes: IRI of every entity, written form of every value; sorted.
        kinds: of every node, by `Kind`.
        facts: property (a node) → its facts.
        labels: language → node → name.
        aliases: node → further names, sorted.
        identifiers: properties that the graph itself declares as identifiers, addresses or
            media.
        triples: how many were read.
        source: name of the file or address.
        digest: sha256 of the file; of what was fetched, for an endpoint.
    """

    nodes: Sequence[str]
    kinds: NDArray[np.uint8]
    facts: Mapping[int, Facts]
    labels: Mapping[str, Mapping[int, str]]
    aliases: Mapping[int, tuple[str, ...]]
    identifiers: frozenset[int]
    triples: int
    source: str
    digest: str
    class_starts: NDArray[np.int64]
    class_members: Ids
    link_starts: NDArray[np.int64]
    link_members: Ids

    def kind(self, node: int) -> Kind:
        """What a node is."""
        return Kind(int(self.kinds[node]))

    def classes(self, node: int) -> frozenset[int]:
        """The classes that the graph says a node is of; often one, or none."""
        return frozenset(
            self.class_members[self.class_starts[node] : self.class_starts[node + 1]].tolist()
        )

    def linked(self, node: int) -> frozenset[int]:
        """Every node that stands in a fact with this one, by any property, either way round."""
        return frozenset(
            self.link_members[self.link_starts[node] : self.link_starts[node + 1]].tolist()
        )

    def are_linked(self, one: int, other: int) -> bool:
        """Whether two nodes stand in a fact together."""
        low, high = self.link_starts[one], self.link_starts[one + 1]
        at = low + self.link_members[low:high].searchsorted(np.int32(other))
        return bool(at < high and self.link_members[at] == other)


def _between(node: int) -> Ids:
    # Of the arrays' own type, or all of the array searched would be converted.
    return np.array((node, node + 1), dtype=np.int32)
