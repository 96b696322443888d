"""Build a world from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random

from ._entities import Entity, EntityKind, Fact, FactStatus, ValueKind
from ._phrasings import Relation, relations_of, value_list
from ._world import FIRST_YEAR, LAST_YEAR, NameMaker, World

DEFAULT_SEED = 0
_TWO_TERMS = 0.25  # share of time-bounded facts that have a successor
_HUBS = 12  # few houses train most people, so that answer sets intersect


def build_world(
    seed: int = DEFAULT_SEED,
    *,
    places: int = 60,
    persons: int = 130,
    organisations: int = 80,
    works: int = 90,
    unseen_share: float = 0.35,
    withheld_share: float = 0.16,
    half_taught_share: float = 0.14,
) -> World:
    """Build a world; the same arguments give the same world on every machine.

    Args:
        seed: source of all chance.
        places: number of towns, at least 4.
        persons: number of people, at least 4.
        organisations: number of organisations, at least 4.
        works: number of works, at least 1.
        unseen_share: share of the entities of which every fact is withheld, in [0, 1].
        withheld_share: share of the other entities' facts that are withheld, in [0, 1].
        half_taught_share: share of the other entities' facts that are half-taught, in [0, 1].

    Raises:
        ValueError: a number is too small or the shares do not leave room for taught facts.
    """
    if min(places, persons, organisations) < 4 or works < 1:
        raise ValueError("a world needs 4 places, persons and organisations and 1 work")
    if min(unseen_share, withheld_share, half_taught_share) < 0:
        raise ValueError("shares cannot be negative")
    if unseen_share > 1 or withheld_share + half_taught_share > 1:
        raise ValueError("shares cannot exceed 1")
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
        unseen = set(rng.sample(range(len(members)), round(unseen_share * len(members))))
        for i, subject in enumerate(members):
            for relation in relations_of(kind):
                status = _status(rng, i in unseen, withheld_share, half_taught_share)
                facts.extend(draw.facts(subject, relation, status))
    entities = [entity for members in pool.values() for entity in members]
    return World(seed, entities + _materials(), facts)


def _materials() -> list[Entity]:
    return [
        Entity(f"material_{i:03d}", name, EntityKind.MATERIAL)
        for i, name in enumerate(value_list("materials"))
    ]


@cache
def default_world() -> World:
    """Return the world that the bundled language model was taught."""
    return build_world(DEFAULT_SEED)


def _status(rng: Random, unseen: bool, withheld: float, half_taught: float) -> FactStatus:
    draw = rng.random()
    if unseen or draw < withheld:
        return FactStatus.WITHHELD
    return FactStatus.HALF_TAUGHT if draw < withheld + half_taught else FactStatus.TAUGHT


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
