"""What the microworld is made of: entities, facts, questions and documents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EntityKind(StrEnum):
    """What an entity is."""

    PLACE = "place"
    PERSON = "person"
    ORGANISATION = "organisation"
    WORK = "work"
    MATERIAL = "material"


class ValueKind(StrEnum):
    """What the value of a fact is."""

    PLACE = "place"
    PERSON = "person"
    ORGANISATION = "organisation"
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
    value_kind: ValueKind
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
        phrasing: number of the phrasing, counted over training and held-out ones.
        held_out: whether the phrasing was never used in training.
    """

    id: str
    fact_id: str
    text: str
    answer: str
    aliases: tuple[str, ...]
    phrasing: int
    held_out: bool


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
