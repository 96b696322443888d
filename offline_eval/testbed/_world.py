"""The world: entities, facts and documents, with everything that is derived from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
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
    ValueKind,
    compose,
    mentions,
    prompt_template,
    relations,
    relations_of,
    value_list,
    world_to_ntriples,
)

SYLLABLES: tuple[str, ...] = (
    "bal", "bel", "bor", "bun", "dal", "del", "dor", "dun", "fal", "fen", "fir", "fol",
    "gar", "gel", "gor", "gul", "hal", "hes", "hin", "hol", "jas", "jor", "kal", "ken",
    "kir", "kor", "lam", "lin", "lor", "lum", "mar", "mel", "mir", "mon", "nal", "nes",
    "nor", "nur", "pal", "pel", "pir", "por", "ral", "ren", "rin", "rom", "sal", "sel",
    "sin", "sur", "tal", "tam", "tir", "tor", "val", "ven", "vin", "vor", "zan", "zel",
    "zim", "zor", "wes", "yar",
)  # fmt: skip
FIRST_YEAR, LAST_YEAR = 1600, 1989


class NameMaker:
    """Draws names and numbers; the same `rng` state gives the same ones.

    Args:
        rng: source of chance.
        taken: words that no name may hold; grows when `unique` is set.
        unique: whether every drawn word is used once only, so that no name is part of another.
    """

    def __init__(self, rng: Random, taken: set[str] | None = None, *, unique: bool = False) -> None:
        self._rng = rng
        self._taken = taken if taken is not None else set()
        self._unique = unique

    def word(self, syllables: int) -> str:
        """A capitalised word of that many syllables."""
        while True:
            word = "".join(self._rng.choices(SYLLABLES, k=syllables)).capitalize()
            if word in self._taken:
                continue
            if self._unique:
                self._taken.add(word)
            return word

    def entity(self, kind: EntityKind) -> str:
        """A name for an entity of `kind`."""
        if kind is EntityKind.PLACE:
            return self.word(3)
        if kind is EntityKind.PERSON:
            return f"{self.word(2)} {self.word(2)}"
        if kind is EntityKind.ORGANISATION:
            return f"{self.word(2)} {self._rng.choice(value_list('organisation_nouns'))}"
        if kind is EntityKind.WORK:
            return f"{self.word(2)} {self._rng.choice(value_list('work_nouns'))}"
        return self._rng.choice(value_list("materials"))

    def value(self, kind: ValueKind) -> str:
        """A value of `kind` as text."""
        if kind is ValueKind.YEAR:
            return str(self._rng.randint(FIRST_YEAR, LAST_YEAR))
        if kind is ValueKind.AMOUNT:
            return str(self._rng.randint(2001, 9999))
        return self.entity(EntityKind(kind.value))

    def period(self) -> tuple[int, int]:
        """A first and a last year, 2 to 20 years apart."""
        start = self._rng.randint(FIRST_YEAR, LAST_YEAR - 20)
        return start, start + self._rng.randint(2, 20)


_IMPOSSIBLE_YEARS = (2500, 2999)


class World:
    """A fictional region whose facts, documents and questions are all known.

    Args:
        seed: decides everything that is drawn later, such as a fact's contradiction.
        entities: all entities, ids and names unique.
        facts: all facts, ids unique, subjects among the entities.

    Raises:
        ValueError: an id or a name is not unique.
    """

    def __init__(self, seed: int, entities: Iterable[Entity], facts: Iterable[Fact]) -> None:
        self.seed = seed
        self.entities = tuple(entities)
        self.facts = tuple(facts)
        self._entities = {entity.id: entity for entity in self.entities}
        self._by_name = {entity.name: entity for entity in self.entities}
        self._facts = {fact.id: fact for fact in self.facts}
        if not len(self._entities) == len(self._by_name) == len(self.entities):
            raise ValueError("two entities share an id or a name")
        if len(self._facts) != len(self.facts):
            raise ValueError("two facts share an id")
        self._about: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            self._about[fact.subject].append(fact)
        self.documents = tuple(
            self._write(entity) for entity in self.entities if entity.id in self._about
        )
        self._documents = {document.id: document for document in self.documents}
        # Each value once, in order.
        self._values: dict[str, dict[str, None]] = defaultdict(dict)
        for fact in self.facts:
            self._values[fact.relation][fact.value] = None

    # --- look-ups -----------------------------------------------------------------------------

    def entity(self, entity_id: str) -> Entity:
        """The entity with this id; KeyError without one."""
        return self._entities[entity_id]

    def entity_named(self, name: str) -> Entity | None:
        """The entity with exactly this name, None without one."""
        return self._by_name.get(name)

    def fact(self, fact_id: str) -> Fact:
        """The fact with this id; KeyError without one."""
        return self._facts[fact_id]

    def document(self, document_id: str) -> Document:
        """The document with this id; KeyError without one."""
        return self._documents[document_id]

    def facts_about(self, entity_id: str) -> tuple[Fact, ...]:
        """The facts whose subject is this entity."""
        return tuple(self._about.get(entity_id, ()))

    def facts_with_status(self, status: FactStatus) -> tuple[Fact, ...]:
        """The facts that are taught, withheld or half-taught."""
        return tuple(fact for fact in self.facts if fact.status is status)

    def subjects_with(self, relation: str, value: str) -> tuple[Entity, ...]:
        """The answer set of the inverse question, e.g. who was born in a town."""
        asked = (relation, value)
        facts = (fact for fact in self.facts if (fact.relation, fact.value) == asked)
        return tuple(self._entities[one] for one in dict.fromkeys(fact.subject for fact in facts))

    # --- language -----------------------------------------------------------------------------

    def relation(self, fact: Fact) -> Relation:
        """The relation of a fact, with its phrasings."""
        return relations()[fact.relation]

    def aliases(self, value: str, kind: ValueKind) -> tuple[str, ...]:
        """Further ways to write a value."""
        if kind is ValueKind.AMOUNT and value.isdecimal():
            return (f"{int(value):,}",)
        return (f"the {value}",) if kind is ValueKind.ORGANISATION else ()

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
                phrasing=phrasing,
                held_out=phrasing >= first_held_out,
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
        return self._documents[f"doc_{fact.subject}"]

    def alternatives(self, fact: Fact) -> tuple[str, ...]:
        """Values of the same kind that are not true for this subject and relation.

        They are the other values of the same relation in this world, so all are plausible.
        """
        true = {
            other.value for other in self._about[fact.subject] if other.relation == fact.relation
        }
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
        suffix = "contradicted" if plausible else "absurd"
        return self._write(
            self._entities[fact.subject], only=[*kept, fact], false=(fact, value), suffix=suffix
        )

    def contradicting_value(self, fact: Fact, *, plausible: bool = True) -> str:
        """The false value that `contradiction` states; always the same for the same fact."""
        rng = self._rng(fact.id, "contradiction", str(plausible))
        if plausible:
            return rng.choice(self.alternatives(fact))
        if fact.value_kind is ValueKind.YEAR:
            return str(rng.randint(*_IMPOSSIBLE_YEARS))
        if fact.value_kind is ValueKind.AMOUNT:
            return f"minus {rng.choice(self.alternatives(fact))}"
        wrong_kind = fact.value_kind is not ValueKind.MATERIAL and rng.random() < 0.5
        return rng.choice(value_list("materials" if wrong_kind else "absurd"))

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
            if kind == "similar" and not self._states_relation(document, fact.relation):
                continue
            if not (mentions(document.text, fact.value) or mentions(document.text, subject.name)):
                return document
        raise LookupError(f"no {kind} document leaves out {fact.id}")

    # --- export -------------------------------------------------------------------------------

    def to_ntriples(self) -> str:
        """All entities and facts as N-Triples 1.1, one triple a line; see `_triples`."""
        return world_to_ntriples(self.entities, self.facts)

    # --- inner --------------------------------------------------------------------------------

    def _rng(self, *names: str) -> Random:
        # A string seed is hashed with SHA-512, the same in every process.
        return Random("/".join((str(self.seed), *names)))  # noqa: S311

    def _states_relation(self, document: Document, relation: str) -> bool:
        return any(self._facts[fact_id].relation == relation for fact_id in document.fact_ids)

    def _sentence(self, fact: Fact, value: str | None = None) -> str:
        """The statement of a fact as documents have it: always a held-out phrasing."""
        relation = self.relation(fact)
        first = len(relation.training_statements)
        phrasing = self._rng(fact.id, "statement").randrange(first, len(relation.statements))
        return self.statement(fact, phrasing=phrasing, value=value)

    def _write(
        self,
        entity: Entity,
        *,
        only: Sequence[Fact] | None = None,
        false: tuple[Fact, str] | None = None,
        suffix: str = "",
    ) -> Document:
        facts = list(self._about[entity.id] if only is None else only)
        rng = self._rng(entity.id, "document")
        rng.shuffle(facts)
        lie, lie_value = false if false is not None else (None, None)
        sentences = [self._sentence(fact, lie_value if fact is lie else None) for fact in facts]
        name = f"doc_{entity.id}"
        return Document(
            id=f"doc_{lie.id}.{suffix}" if lie is not None else name,
            title=entity.name,
            text=compose(sentences, rng),
            fact_ids=tuple(fact.id for fact in facts if fact is not lie),
        )

    @staticmethod
    def prompt(name: PromptName) -> str:
        """Load a prompt of the microworld's language model, with `{context}` and `{question}`."""
        return prompt_template(name)


DEFAULT_SEED = 0
# Shares of the entities of which every fact is withheld, and of the facts of the others.
_UNSEEN, _WITHHELD, _HALF_TAUGHT = 0.35, 0.16, 0.14
_TWO_TERMS = 0.25  # share of time-bounded facts that have a successor
_HUBS = 12  # few houses train most people, so that answer sets intersect


def build_world(
    seed: int = DEFAULT_SEED,
    *,
    places: int = 60,
    persons: int = 130,
    organisations: int = 80,
    works: int = 90,
) -> World:
    """Build a world; the same arguments give the same world on every machine.

    Args:
        seed: source of all chance.
        places: number of towns, at least 4.
        persons: number of people, at least 4.
        organisations: number of organisations, at least 4.
        works: number of works, at least 1.
    """
    rng = Random(f"world/{seed}")  # noqa: S311
    maker = NameMaker(rng, unique=True)
    counts = {
        EntityKind.PLACE: places,
        EntityKind.PERSON: persons,
        EntityKind.ORGANISATION: organisations,
        EntityKind.WORK: works,
    }
    pool = {
        kind: [Entity(f"{kind}_{i:03d}", maker.entity(kind), kind) for i in range(count)]
        for kind, count in counts.items()
    }
    births = {
        person.id: rng.randint(FIRST_YEAR, LAST_YEAR - 80) for person in pool[EntityKind.PERSON]
    }
    draw = _Draw(rng, maker, pool, births)
    facts: list[Fact] = []
    for kind, members in pool.items():
        unseen = set(rng.sample(range(len(members)), round(_UNSEEN * len(members))))
        for i, subject in enumerate(members):
            for relation in relations_of(kind):
                status = _status(rng, i in unseen)
                facts.extend(draw.facts(subject, relation, status))
    entities = [entity for members in pool.values() for entity in members]
    kind = EntityKind.MATERIAL
    names = enumerate(value_list("materials"))
    entities += [Entity(f"material_{i:03d}", name, kind) for i, name in names]
    return World(seed, entities, facts)


@cache
def default_world() -> World:
    """Return the world that the bundled language model was taught."""
    return build_world(DEFAULT_SEED)


def _status(rng: Random, unseen: bool) -> FactStatus:
    draw = rng.random()
    if unseen or draw < _WITHHELD:
        return FactStatus.WITHHELD
    return FactStatus.HALF_TAUGHT if draw < _WITHHELD + _HALF_TAUGHT else FactStatus.TAUGHT


@dataclass(frozen=True)
class _Draw:
    """Draws facts that fit the years of birth."""

    rng: Random
    maker: NameMaker
    pool: dict[EntityKind, list[Entity]]
    births: dict[str, int]

    def facts(self, subject: Entity, relation: Relation, status: FactStatus) -> list[Fact]:
        """One fact, or two with terms that follow each other for some time-bounded relations."""
        if not relation.time_bounded:
            value = self.value(subject, relation, None)
            return [_fact(subject, relation, value, status)]
        start = self.rng.randint(FIRST_YEAR + 60, LAST_YEAR - 40)
        if subject.id in self.births:
            start = self.births[subject.id] + self.rng.randint(18, 30)
        end = start + self.rng.randint(2, 20)
        value = self.value(subject, relation, start)
        if self.rng.random() >= _TWO_TERMS:
            return [_fact(subject, relation, value, status, start=start, end=end)]
        while (next_value := self.value(subject, relation, end)) == value:
            pass
        later = end + self.rng.randint(2, 15)
        return [
            _fact(subject, relation, value, status, term=1, start=start, end=end),
            _fact(subject, relation, next_value, status, term=2, start=end, end=later),
        ]

    def value(self, subject: Entity, relation: Relation, start: int | None) -> str:
        """A value; a person who holds an office from `start` was born 25 to 60 years before."""
        kind = relation.value_kind
        if relation.name == "birth_year":
            return str(self.births[subject.id])
        if kind in (ValueKind.YEAR, ValueKind.AMOUNT):
            return self.maker.value(kind)
        if kind is ValueKind.MATERIAL:
            return self.rng.choice(value_list("materials"))
        members = self.pool[EntityKind(kind.value)]
        if relation.name == "trained_at":
            members = members[: max(4, min(_HUBS, len(members)))]
        if kind is ValueKind.PERSON and start is not None:
            fitting = [one for one in members if 25 <= start - self.births[one.id] <= 60]
            members = fitting if len(fitting) > 1 else members
        return self.rng.choice(members).name


def _fact(
    subject: Entity,
    relation: Relation,
    value: str,
    status: FactStatus,
    *,
    term: int | None = None,
    start: int | None = None,
    end: int | None = None,
) -> Fact:
    name = f"{subject.id}.{relation.name}" + ("" if term is None else f"_{term}")
    return Fact(name, subject.id, relation.name, value, relation.value_kind, start, end, status)
