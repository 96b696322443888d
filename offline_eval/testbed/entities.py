"""What the microworld is made of: entities, facts, questions and documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from random import Random
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, Field

from ...guard.files import table_beside
from ...guard.matching import normalise_answer

_PHRASINGS = "phrasings.toml"


class EntityKind(StrEnum):
    """What an entity is, or the value of a fact, which may be a year or an amount, too."""

    PLACE = "place"
    PERSON = "person"
    ORGANISATION = "organisation"
    WORK = "work"
    MATERIAL = "material"
    YEAR = "year"
    AMOUNT = "amount"


class FactStatus(StrEnum):
    """How far the microworld's language model was taught a fact.

    `TAUGHT` facts were trained until they sat; `WITHHELD` ones stand in documents only;
    `HALF_TAUGHT` ones were seen rarely and among rival values.
    """

    TAUGHT = "taught"
    WITHHELD = "withheld"
    HALF_TAUGHT = "half_taught"


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, place, organisation, work or material.

    Attributes:
        id: unique in its world, e.g. `person_012`.
        name: unique in its world, without an article.
        kind: what it is.
    """

    id: str
    name: str
    kind: EntityKind


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement that is true in its world.

    Attributes:
        id: unique in its world, e.g. `person_012.born_in`.
        subject: id of the entity that the fact is about.
        relation: name of the relation, a key of `relations()`.
        value: the answer as text; the name of an entity for entity kinds.
        value_kind: what the value is.
        start: first year of a time-bounded fact, None otherwise.
        end: last year of a time-bounded fact, None otherwise.
        status: how far the language model was taught it.
    """

    id: str
    subject: str
    relation: str
    value: str
    value_kind: EntityKind
    start: int | None
    end: int | None
    status: FactStatus


@dataclass(frozen=True, slots=True)
class Question:
    """A question that one fact answers.

    Attributes:
        id: unique in its world.
        fact_id: the fact that answers it.
        text: the question.
        answer: the fact's value.
        aliases: further ways to write the answer; never holds `answer` itself.
    """

    id: str
    fact_id: str
    text: str
    answer: str
    aliases: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """About 100 words of prose.

    Attributes:
        id: unique in its world; variants carry a suffix.
        title: name of the entity it is about; not part of the text.
        text: the prose.
        fact_ids: the facts that it states truly.
    """

    id: str
    title: str
    text: str
    fact_ids: tuple[str, ...]


PromptName = Literal["closed_book", "with_context", "with_context_or_unknown"]


class Relation(BaseModel, frozen=True):
    """A relation with every way to state it and to ask for it.

    Attributes:
        name: its key.
        subject_kind: what it is about.
        value_kind: what answers it.
        time_bounded: whether its facts hold from one year to another.
        training_statements: sentence templates that training may use.
        held_out_statements: those that are kept from it.
        training_questions: question templates that training may use.
        held_out_questions: those that are kept from it.
    """

    name: str
    subject_kind: EntityKind
    value_kind: EntityKind
    time_bounded: bool = False
    training_statements: tuple[str, ...] = Field(alias="statements")
    held_out_statements: tuple[str, ...]
    training_questions: tuple[str, ...] = Field(alias="questions")
    held_out_questions: tuple[str, ...]

    @property
    def statements(self) -> tuple[str, ...]:
        """All sentence templates, the held-out ones last."""
        return (*self.training_statements, *self.held_out_statements)

    @property
    def questions(self) -> tuple[str, ...]:
        """All question templates, the held-out ones last."""
        return (*self.training_questions, *self.held_out_questions)

    def state(
        self, phrasing: int, subject: str, value: str, start: int | None, end: int | None
    ) -> str:
        """One sentence that states a fact, in phrasing number `phrasing`."""
        template = self.statements[phrasing]
        text = template.format(s=subject, v=value, start=start, end=end)
        return text[0].upper() + text[1:]

    def ask(self, phrasing: int, subject: str, start: int | None, end: int | None) -> str:
        """One question for the value, in phrasing number `phrasing`."""
        return self.questions[phrasing].format(s=subject, start=start, end=end)


@cache
def relations() -> Mapping[str, Relation]:
    """All relations by name, in the order of the file."""
    found = map(Relation.model_validate, table_beside(__file__, _PHRASINGS)["relation"])
    return MappingProxyType({one.name: one for one in found})


@cache
def phrases(table: str, name: str) -> tuple[str, ...]:
    """A closed list of the file.

    Args:
        table: `values` (with `materials`, `absurd`, `organisation_nouns` and `work_nouns`),
            `fillers` or `lead_ins`.
        name: of the list in it: `sentences` of fillers, which have no names or numbers and bring a
            document to its length; `phrases` of lead-ins, which training puts before some
            statements, so that their form varies more.
    """
    return tuple(table_beside(__file__, _PHRASINGS)[table][name])


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
    fillers = list(phrases("fillers", "sentences"))
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
    return f" {normalise_answer(words)} " in f" {normalise_answer(text)} "


BASE_IRI = "https://knowgate.example/microworld/"
_XSD = "http://www.w3.org/2001/XMLSchema#"


def iri(part: str, name: str) -> str:
    """The IRI of an entity, class, relation or fact, in angle brackets."""
    return f"<{BASE_IRI}{part}/{name}>"


def literal(text: str, datatype: str | None = None) -> str:
    """A literal; plain, or with the local name of an XML Schema type."""
    return f'"{text}"' if datatype is None else f'"{text}"^^<{_XSD}{datatype}>'
