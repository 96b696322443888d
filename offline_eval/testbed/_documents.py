"""Documents of about 100 words, composed of statements and filler sentences."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from random import Random
from urllib.parse import quote

from ._entities import Entity, EntityKind, Fact, ValueKind
from ._phrasings import filler_sentences

DOCUMENT_WORDS = 100


def compose(statements: Sequence[str], rng: Random, *, words: int = DOCUMENT_WORDS) -> str:
    """Prose that holds the statements in their order among filler sentences.

    Args:
        statements: full sentences.
        rng: picks and places the fillers.
        words: fillers are added until this length is as close as it gets.

    Returns:
        One paragraph; longer than `words` only when the statements alone are.
    """
    fillers = list(filler_sentences())
    rng.shuffle(fillers)
    sentences: list[str | None] = [None] * len(statements)
    missing = words - sum(len(statement.split()) for statement in statements)
    chosen: list[str] = []
    while fillers and missing > 5:
        filler = fillers.pop()
        chosen.append(filler)
        missing -= len(filler.split())
    for filler in chosen:
        sentences.insert(rng.randint(0, len(sentences)), filler)
    rest = iter(statements)
    return " ".join(next(rest) if sentence is None else sentence for sentence in sentences)


def mentions(text: str, words: str) -> bool:
    """Whether `words` stand in `text`, whatever the case and with or without number commas.

    >>> mentions("The town of Balbel has 4,310 people.", "balbel")
    True
    >>> mentions("In 18401 sheep were counted.", "1840")
    False
    """

    def flat(part: str) -> str:
        kept = part.casefold().replace(",", "")
        kept = "".join(char if char.isalnum() else " " for char in kept)
        return f" {' '.join(kept.split())} "

    return flat(words) in flat(text)


def normalise_answer(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces.

    >>> normalise_answer("The Balbel Guild.")
    'balbel guild'
    """
    kept = "".join(char for char in text.casefold() if char not in string.punctuation)
    return " ".join(word for word in kept.split() if word not in {"a", "an", "the"})


def is_same_answer(answer: str, expected: str) -> bool:
    """Exact match after normalisation."""
    return normalise_answer(answer) == normalise_answer(expected)


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
