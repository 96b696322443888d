"""The world: entities, facts and documents, with everything that is derived from them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal

from .entities import (
    Document,
    Entity,
    EntityKind,
    Fact,
    FactStatus,
    PromptName,
    Question,
    Relation,
    compose,
    iri,
    literal,
    mentions,
    phrases,
    relations,
)

_IMPOSSIBLE_YEARS = (2500, 2999)
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_DATATYPES = {EntityKind.YEAR: "gYear", EntityKind.AMOUNT: "integer"}


class World:
    """A fictional region whose facts, documents and questions are all known.

    Args:
        seed: decides everything that is drawn later, such as a fact's contradiction.
        entities: all entities, ids and names unique.
        facts: all facts, ids unique, subjects among the entities.
    """

    def __init__(self, seed: int, entities: Iterable[Entity], facts: Iterable[Fact]) -> None:
        self.seed = seed
        self.entities = tuple(entities)
        self.facts = tuple(facts)
        self._entities = {entity.id: entity for entity in self.entities}
        self._facts = {fact.id: fact for fact in self.facts}
        self._about: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            self._about[fact.subject].append(fact)
        self._documents = {
            name: self._write(f"doc_{name}", self._entities[name], self._about[name], {})
            for name in self._entities
            if name in self._about
        }
        self.documents = tuple(self._documents.values())
        # Each value once, in order.
        self._values: dict[str, dict[str, None]] = defaultdict(dict)
        for fact in self.facts:
            self._values[fact.relation][fact.value] = None

    # --- look-ups -----------------------------------------------------------------------------

    def entity(self, entity_id: str) -> Entity:
        """The entity with this id; KeyError without one."""
        return self._entities[entity_id]

    def fact(self, fact_id: str) -> Fact:
        """The fact with this id; KeyError without one."""
        return self._facts[fact_id]

    def facts_about(self, entity_id: str) -> tuple[Fact, ...]:
        """The facts whose subject is this entity."""
        return tuple(self._about.get(entity_id, ()))

    def facts_with_status(self, status: FactStatus) -> tuple[Fact, ...]:
        """The facts that are taught, withheld or half-taught."""
        return tuple(fact for fact in self.facts if fact.status is status)

    # --- language -----------------------------------------------------------------------------

    def relation(self, fact: Fact) -> Relation:
        """The relation of a fact, with its phrasings."""
        return relations()[fact.relation]

    def aliases(self, value: str, kind: EntityKind) -> tuple[str, ...]:
        """Further ways to write a value."""
        if kind is EntityKind.AMOUNT and value.isdecimal():
            return (f"{int(value):,}",)
        return (f"the {value}",) if kind is EntityKind.ORGANISATION else ()

    def questions(self, fact: Fact, *, held_out: bool | None = None) -> tuple[Question, ...]:
        """The questions that `fact` answers.

        Args:
            fact: a fact of this world.
            held_out: True for the phrasings that training never used, False for the others,
                None for all.
        """
        relation = self.relation(fact)
        first_held_out = len(relation.training_questions)
        subject = self._entities[fact.subject].name
        return tuple(
            Question(
                id=f"{fact.id}.q{phrasing}",
                fact_id=fact.id,
                text=relation.ask(phrasing, subject, fact.start, fact.end),
                answer=fact.value,
                aliases=self.aliases(fact.value, fact.value_kind),
            )
            for phrasing in range(len(relation.questions))
            if held_out is None or held_out == (phrasing >= first_held_out)
        )

    def statement(self, fact: Fact, *, phrasing: int = 0, value: str | None = None) -> str:
        """One sentence that states `fact`.

        Args:
            fact: a fact of this world.
            phrasing: number of the phrasing, 0 to `len(relation.statements) - 1`.
            value: stated in place of the true one when given.
        """
        stated = fact.value if value is None else value
        subject = self._entities[fact.subject].name
        return self.relation(fact).state(phrasing, subject, stated, fact.start, fact.end)

    # --- documents ----------------------------------------------------------------------------

    def document_for(self, fact: Fact) -> Document:
        """The document that states `fact`: the one about its subject."""
        return self._documents[fact.subject]

    def alternatives(self, fact: Fact) -> tuple[str, ...]:
        """Values of the same kind that are not true for this subject and relation.

        They are the other values of the same relation in this world, so all are plausible.
        """
        same = (one for one in self._about[fact.subject] if one.relation == fact.relation)
        true = {one.value for one in same}
        return tuple(value for value in self._values[fact.relation] if value not in true)

    def contradiction(self, fact: Fact, *, plausible: bool = True) -> Document:
        """The document about the subject with `fact` replaced by a falsehood.

        Args:
            fact: a fact of this world.
            plausible: True for a value of the same kind from `alternatives`; False for an absurd
                one, of the wrong kind or impossible.

        Returns:
            The document; the false value is in `contradicting_value`, and the text does not
            hold the true one.
        """
        value = self.contradicting_value(fact, plausible=plausible)
        kept = [other for other in self._about[fact.subject] if other is not fact]
        # The true answer must not be readable anywhere: another fact may share the value.
        kept = [other for other in kept if not mentions(self._sentence(other), fact.value)]
        name = f"doc_{fact.id}.{'contradicted' if plausible else 'absurd'}"
        return self._write(name, self._entities[fact.subject], [*kept, fact], {fact.id: value})

    def contradicting_value(self, fact: Fact, *, plausible: bool = True) -> str:
        """The false value that `contradiction` states; always the same for the same fact."""
        rng = self._rng(fact.id, "contradiction", str(plausible))
        if plausible:
            return rng.choice(self.alternatives(fact))
        if fact.value_kind is EntityKind.YEAR:
            return str(rng.randint(*_IMPOSSIBLE_YEARS))
        if fact.value_kind is EntityKind.AMOUNT:
            return f"minus {rng.choice(self.alternatives(fact))}"
        wrong_kind = fact.value_kind is not EntityKind.MATERIAL and rng.random() < 0.5
        return rng.choice(phrases("values", "materials" if wrong_kind else "absurd"))

    def irrelevant_document(
        self, fact: Fact, kind: Literal["random", "similar"], rng: Random
    ) -> Document:
        """A document that does not answer the questions about `fact`.

        Args:
            fact: a fact of this world.
            kind: `random` for any document, `similar` for what a retriever returns by mistake:
                another subject of the same kind, with the same relation stated.
            rng: picks among the candidates.

        Returns:
            A document that names neither the subject nor the value of `fact`.
        """
        subject = self._entities[fact.subject]
        candidates = list(self.documents)
        rng.shuffle(candidates)
        for document in candidates:
            if document.id == f"doc_{subject.id}":
                continue
            stated = {self._facts[name].relation for name in document.fact_ids}
            if kind == "similar" and fact.relation not in stated:
                continue
            if not (mentions(document.text, fact.value) or mentions(document.text, subject.name)):
                return document
        raise LookupError(f"no {kind} document leaves out {fact.id}")

    # --- export -------------------------------------------------------------------------------

    def to_ntriples(self) -> str:
        """All entities and facts as N-Triples 1.1, one triple a line.

        Names in the world are words and ids, in which nothing is to be escaped.
        """
        nodes: dict[tuple[str, str], str] = {}
        triples: list[tuple[str, str, str]] = []
        for entity in self.entities:
            node = nodes[entity.kind, entity.name] = iri("entity", entity.id)
            triples.append((node, f"<{_RDF}type>", iri("class", entity.kind)))
            triples.append((node, _RDFS_LABEL, literal(entity.name)))
        for fact in self.facts:
            node, subject = iri("fact", fact.id), iri("entity", fact.subject)
            predicate = iri("relation", fact.relation)
            if fact.value_kind in _DATATYPES:
                value = literal(fact.value, _DATATYPES[fact.value_kind])
            else:
                value = nodes[fact.value_kind, fact.value]
            if fact.start is None:
                triples.append((subject, predicate, value))
            triples += [
                (node, f"<{_RDF}type>", f"<{_RDF}Statement>"),
                (node, f"<{_RDF}subject>", subject),
                (node, f"<{_RDF}predicate>", predicate),
                (node, f"<{_RDF}object>", value),
                (node, iri("relation", "status"), literal(fact.status)),
            ]
            for name, year in (("start", fact.start), ("end", fact.end)):
                if year is not None:
                    triples.append((node, iri("relation", name), literal(str(year), "gYear")))
        return "".join(f"{' '.join(triple)} .\n" for triple in triples)

    # --- inner --------------------------------------------------------------------------------

    def _rng(self, *names: str) -> Random:
        # A string seed is hashed with SHA-512, the same in every process.
        return Random("/".join((str(self.seed), *names)))  # noqa: S311

    def _sentence(self, fact: Fact, value: str | None = None) -> str:
        """The statement of a fact as documents have it: always a held-out phrasing."""
        relation = self.relation(fact)
        first = len(relation.training_statements)
        phrasing = self._rng(fact.id, "statement").randrange(first, len(relation.statements))
        return self.statement(fact, phrasing=phrasing, value=value)

    def _write(
        self, name: str, entity: Entity, about: Sequence[Fact], false: Mapping[str, str]
    ) -> Document:
        """A document that states facts; those with a false value state that one."""
        facts, rng = list(about), self._rng(entity.id, "document")
        rng.shuffle(facts)
        sentences = [self._sentence(fact, false.get(fact.id)) for fact in facts]
        true = tuple(fact.id for fact in facts if fact.id not in false)
        return Document(name, entity.name, compose(sentences, rng), true)

    @staticmethod
    def prompt(name: PromptName) -> str:
        """Load a prompt of the microworld's language model, with `{context}` and `{question}`."""
        return (Path(__file__).parent / "prompts" / f"{name}.txt").read_text(encoding="utf-8")


WORLD_FILE = Path(__file__).parent / "world.json"


@cache
def default_world() -> World:
    """Return the world that the bundled language model was taught.

    It was drawn at random by `tools/microworld/world.py`.
    """
    found = json.loads(WORLD_FILE.read_text(encoding="utf-8"))
    entities = [Entity(name, text, EntityKind(kind)) for name, text, kind in found["entities"]]
    kinds = {name: relation.value_kind for name, relation in relations().items()}
    facts = [
        Fact(name, subject, relation, value, kinds[relation], start, end, FactStatus(status))
        for name, subject, relation, value, start, end, status in found["facts"]
    ]
    return World(found["seed"], entities, facts)
