"""The world as N-Triples 1.1.

Entities carry `rdf:type` and `rdfs:label`. A fact without time bounds is a plain triple. Every
fact, time-bounded ones included, is also a node of type `rdf:Statement` with `rdf:subject`,
`rdf:predicate`, `rdf:object`, `status` and, when it is time-bounded, `start` and `end` as
`xsd:gYear`. A time-bounded fact has no plain triple, since that would state it without its bounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from ._entities import Entity, EntityKind, Fact, ValueKind

BASE_IRI = "https://knowgate.example/microworld/"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def world_to_ntriples(entities: Iterable[Entity], facts: Iterable[Fact]) -> str:
    """All triples, one a line, in the order of the arguments; ends with a newline."""
    by_name: dict[tuple[EntityKind, str], Entity] = {}
    lines: list[str] = []
    for entity in entities:
        by_name[entity.kind, entity.name] = entity
        node = iri("entity", entity.id)
        lines.append(_line(node, f"<{_RDF}type>", iri("class", entity.kind)))
        lines.append(_line(node, _RDFS_LABEL, literal(entity.name)))
    for fact in facts:
        lines.extend(_fact_lines(fact, by_name))
    return "".join(lines)


def iri(part: str, name: str) -> str:
    """The IRI of an entity, class, relation or fact, in angle brackets."""
    return f"<{BASE_IRI}{part}/{quote(name, safe='')}>"


def literal(text: str, datatype: str | None = None) -> str:
    """A literal, escaped; plain, or with the local name of an XML Schema type."""
    escaped = "".join(_ESCAPES.get(char, char) for char in text)
    return f'"{escaped}"' if datatype is None else f'"{escaped}"^^<{_XSD}{datatype}>'


def _line(subject: str, predicate: str, obj: str) -> str:
    return f"{subject} {predicate} {obj} .\n"


def _object(fact: Fact, by_name: dict[tuple[EntityKind, str], Entity]) -> str:
    if fact.value_kind is ValueKind.YEAR:
        return literal(fact.value, "gYear")
    if fact.value_kind is ValueKind.AMOUNT:
        return literal(fact.value, "integer")
    return iri("entity", by_name[EntityKind(fact.value_kind.value), fact.value].id)


def _fact_lines(fact: Fact, by_name: dict[tuple[EntityKind, str], Entity]) -> list[str]:
    node, obj = iri("fact", fact.id), _object(fact, by_name)
    subject, predicate = iri("entity", fact.subject), iri("relation", fact.relation)
    lines = [] if fact.start is not None else [_line(subject, predicate, obj)]
    lines += [
        _line(node, f"<{_RDF}type>", f"<{_RDF}Statement>"),
        _line(node, f"<{_RDF}subject>", subject),
        _line(node, f"<{_RDF}predicate>", predicate),
        _line(node, f"<{_RDF}object>", obj),
        _line(node, iri("relation", "status"), literal(fact.status)),
    ]
    for name, year in (("start", fact.start), ("end", fact.end)):
        if year is not None:
            lines.append(_line(node, iri("relation", name), literal(str(year), "gYear")))
    return lines
