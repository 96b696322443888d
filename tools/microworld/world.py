"""Draw the microworld: names, entities and facts.

`python -m tools.microworld.world` writes what comes of it to `offline_eval/testbed/world.json`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

from knowgate.offline_eval.testbed import FactStatus, World
from knowgate.offline_eval.testbed.entities import (
    Entity,
    EntityKind,
    Fact,
    Relation,
    phrases,
    relations,
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
            return f"{self.word(2)} {self._rng.choice(phrases('values', 'organisation_nouns'))}"
        if kind is EntityKind.WORK:
            return f"{self.word(2)} {self._rng.choice(phrases('values', 'work_nouns'))}"
        return self._rng.choice(phrases("values", "materials"))

    def value(self, kind: EntityKind) -> str:
        """A value of `kind` as text."""
        if kind is EntityKind.YEAR:
            return str(self._rng.randint(FIRST_YEAR, LAST_YEAR))
        if kind is EntityKind.AMOUNT:
            return str(self._rng.randint(2001, 9999))
        return self.entity(EntityKind(kind.value))

    def period(self) -> tuple[int, int]:
        """A first and a last year, 2 to 20 years apart."""
        start = self._rng.randint(FIRST_YEAR, LAST_YEAR - 20)
        return start, start + self._rng.randint(2, 20)


def relations_of(kind: EntityKind) -> tuple[Relation, ...]:
    """The relations whose subject is of `kind`."""
    return tuple(relation for relation in relations().values() if relation.subject_kind is kind)


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
    rng = Random(f"world/{seed}")
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
    names = enumerate(phrases("values", "materials"))
    entities += [Entity(f"material_{i:03d}", name, kind) for i, name in names]
    return World(seed, entities, facts)


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
        if kind in (EntityKind.YEAR, EntityKind.AMOUNT):
            return self.maker.value(kind)
        if kind is EntityKind.MATERIAL:
            return self.rng.choice(phrases("values", "materials"))
        members = self.pool[EntityKind(kind.value)]
        if relation.name == "trained_at":
            members = members[: max(4, min(_HUBS, len(members)))]
        if kind is EntityKind.PERSON and start is not None:
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


def write_world(world: World, path: Path) -> None:
    """Write a world as the package bundles it: an entity or a fact a line."""
    entities = [[one.id, one.name, one.kind] for one in world.entities]
    facts = [
        [one.id, one.subject, one.relation, one.value, one.start, one.end, one.status]
        for one in world.facts
    ]
    parts = (",\n".join(map(json.dumps, rows)) for rows in (entities, facts))
    text = '{{"seed": {}, "entities": [\n{}\n], "facts": [\n{}\n]}}\n'
    path.write_text(text.format(world.seed, *parts), encoding="utf-8")
