"""RDF terms as the generator needs them: vocabularies, years, numbers, cleaned names."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from enum import IntEnum

from ...guard import clean_text

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
