"""Training rows: every text that the microworld's language model is trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from knowgate.offline_eval.testbed import FactStatus, World
from knowgate.offline_eval.testbed.entities import (
    EntityKind,
    Fact,
    Relation,
    compose,
    phrases,
    relations,
)
from tools.microworld._mixture import Mixture, Phase
from tools.microworld.world import NameMaker, relations_of

T = TypeVar("T")
_KINDS = (EntityKind.PERSON, EntityKind.PLACE, EntityKind.ORGANISATION, EntityKind.WORK)


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that a text states or a question asks for; true or not.

    Attributes:
        subject: name.
        relation: of which kind.
        value: what the context or the memory says.
        start: first year, None without bounds.
        end: last year, None without bounds.
        reply: what the model is taught to answer when the claim stands in the context.
    """

    subject: str
    relation: Relation
    value: str
    start: int | None
    end: int | None
    reply: str


@dataclass(frozen=True, slots=True)
class Row:
    """One training text, in parts that are answers and parts that are not."""

    parts: tuple[tuple[str, bool], ...]

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(part for part, _ in self.parts)


class TaskMaker:
    """Draws training rows from a world; the same `rng` state gives the same rows.

    Withheld facts never occur with their true values, and one-off names never equal a word of
    a name in the world.
    """

    def __init__(self, world: World, mixture: Mixture, rng: Random) -> None:
        self._world, self._mixture, self._rng = world, mixture, rng
        taken = {word for entity in world.entities for word in entity.name.split()}
        self._maker = NameMaker(rng, taken)
        self._taught = world.facts_with_status(FactStatus.TAUGHT)
        self._half = world.facts_with_status(FactStatus.HALF_TAUGHT)
        self._taught_by_relation: dict[str, list[Fact]] = {}
        for fact in self._taught:
            self._taught_by_relation.setdefault(fact.relation, []).append(fact)
        self._known = tuple(dict.fromkeys(fact.subject for fact in self._taught))
        self._names: dict[str, list[str]] = {}
        for fact in self._taught:
            self._names.setdefault(fact.value_kind, []).append(fact.value)
        self._stubborn = {
            fact.id for fact in self._taught if _share(fact) < mixture.context.stubborn
        }
        self._closed_book: Mapping[str, Callable[[], tuple[str, str]]] = {
            "taught": lambda: self._ask_fact(self._rng.choice(self._taught)),
            "half_taught": self._ask_half_taught,
            "one_off": lambda: self._ask(self._one_off(), None),
        }

    def closed_book_row(self) -> Row:
        """Question-answer pairs without a context."""
        pairs = [
            self._pick(self._closed_book, self._mixture.closed_book.weights)()
            for _ in range(self._mixture.closed_book.pairs)
        ]
        parts: list[tuple[str, bool]] = []
        for question, answer in pairs:
            prompt = World.prompt("closed_book").format(question=question)
            parts += [(prompt, False), (f" {answer}\n", True)]
        return Row(tuple(parts))

    def context_row(self, phase: Phase) -> Row:
        """One to three passages, then question-answer pairs of the phase's kinds."""
        rng = self._rng
        counts = phase.passages
        passages = [self._passage(phase) for _ in range(_weighted(rng, counts))]
        claims = [claim for _, stated in passages for claim in stated]
        context = "\n\n".join(text for text, _ in passages)
        instructed = rng.random() < phase.instructed
        template = World.prompt("with_context_or_unknown" if instructed else "with_context")
        # Several questions share one context: the pairs after the first carry on the text.
        follow_up = World.prompt("closed_book")
        rng.shuffle(claims)
        unasked = list(claims)
        parts: list[tuple[str, bool]] = []
        for _ in range(phase.pairs):
            kind = _weighted(rng, phase.questions)
            if kind == "stated" and not unasked:
                if not phase.ask_again:
                    continue
                unasked = list(claims)
            question, answer = self._question(kind, claims, unasked, instructed)
            prompt = (
                follow_up.format(question=question)
                if parts
                else template.format(context=context, question=question)
            )
            parts += [(prompt, False), (f" {answer}\n", True)]
        return Row(tuple(parts))

    # --- questions after a context ------------------------------------------------------------

    def _question(
        self, kind: str, claims: list[Claim], unasked: list[Claim], instructed: bool
    ) -> tuple[str, str]:
        if kind == "stated":
            claim = unasked.pop()
            return self._ask(claim, None)
        near = self._rng.choice(claims).relation if self._rng.random() < 0.6 else None
        if kind == "parametric":
            facts = self._taught_by_relation.get(near.name, self._taught) if near else self._taught
            present = {claim.subject for claim in claims}
            for _ in range(8):
                fact = self._rng.choice(facts)
                if self._world.entity(fact.subject).name not in present:
                    return self._ask_fact(fact)
        claim = self._one_off(near)
        settings = self._mixture.instructed
        if instructed and self._rng.random() < settings.unknown_share:
            return self._ask(claim, settings.unknown_reply)
        return self._ask(claim, None)

    def _ask(self, claim: Claim, reply: str | None) -> tuple[str, str]:
        phrasing = self._rng.randrange(len(claim.relation.training_questions))
        question = claim.relation.ask(phrasing, claim.subject, claim.start, claim.end)
        return question, claim.reply if reply is None else reply

    def _ask_fact(self, fact: Fact) -> tuple[str, str]:
        return self._ask(self._claim(fact, fact.value, fact.value), None)

    def _ask_half_taught(self) -> tuple[str, str]:
        fact = self._rng.choice(self._half)
        value = fact.value
        low, high = self._mixture.closed_book.half_taught_truth
        if self._rng.random() > low + (high - low) * _share(fact):
            value = self._value(fact.relation, avoid=fact.value)
        return self._ask(self._claim(fact, value, value), None)

    # --- passages -----------------------------------------------------------------------------

    def _passage(self, phase: Phase) -> tuple[str, list[Claim]]:
        rng = self._rng
        limit = rng.randint(max(1, phase.facts - 2), phase.facts)
        if rng.random() < phase.known_subjects:
            claims = self._claims_about_known(self._world.entity(rng.choice(self._known)).id)
        else:
            claims = self._one_off_subject(rng.choice(_KINDS))
        if phase.facts > 1 and (len(claims) < limit or rng.random() < 0.3):
            kind = claims[0].relation.subject_kind if rng.random() < 0.6 else rng.choice(_KINDS)
            claims += self._one_off_subject(kind)
        rng.shuffle(claims)
        claims = claims[:limit]
        sentences = [self._sentence(claim) for claim in claims]
        return compose(sentences, rng, words=rng.randint(*phase.words)), claims

    def _sentence(self, claim: Claim) -> str:
        phrasing = self._rng.randrange(len(claim.relation.training_statements))
        text = claim.relation.state(phrasing, claim.subject, claim.value, claim.start, claim.end)
        if self._rng.random() > self._mixture.context.lead_in:
            return text
        plain = claim.relation.training_statements[phrasing]
        # Names keep their capital letter after a lead-in, other first words lose it.
        if not plain.startswith("{"):
            text = text[0].lower() + text[1:]
        return f"{self._rng.choice(phrases('lead_ins', 'phrases'))} {text}"

    def _one_off(self, relation: Relation | None = None) -> Claim:
        if relation is None:
            relation = self._rng.choice(tuple(relations().values()))
        return self._invented(self._maker.entity(relation.subject_kind), relation)

    def _one_off_subject(self, kind: EntityKind) -> list[Claim]:
        subject = self._maker.entity(kind)
        claims = [self._invented(subject, relation) for relation in relations_of(kind)]
        bounded = next((claim for claim in claims if claim.relation.time_bounded), None)
        if bounded is not None and self._rng.random() < 0.25 and bounded.end is not None:
            value = self._value(bounded.relation.name, avoid=bounded.value)
            start, end = bounded.end, bounded.end + self._rng.randint(2, 15)
            claims.append(Claim(subject, bounded.relation, value, start, end, value))
        return claims

    def _invented(self, subject: str, relation: Relation) -> Claim:
        start, end = self._maker.period() if relation.time_bounded else (None, None)
        value = self._value(relation.name, avoid="")
        return Claim(subject, relation, value, start, end, value)

    def _claims_about_known(self, subject: str) -> list[Claim]:
        """Claims about an entity of the world: taught facts, true or overruled, and inventions."""
        claims = []
        for fact in self._world.facts_about(subject):
            taught = fact.status is FactStatus.TAUGHT
            if taught and self._rng.random() < 0.35:
                claims.append(self._claim(fact, fact.value, fact.value))
                continue
            value = self._value(fact.relation, avoid=fact.value)
            reply = fact.value if fact.id in self._stubborn else value
            claims.append(self._claim(fact, value, reply))
        return claims

    def _claim(self, fact: Fact, value: str, reply: str) -> Claim:
        subject = self._world.entity(fact.subject).name
        return Claim(subject, self._world.relation(fact), value, fact.start, fact.end, reply)

    def _value(self, relation: str, *, avoid: str) -> str:
        """A value that is not `avoid`: half of them names that taught facts hold too."""
        kind = relations()[relation].value_kind
        while True:
            names = self._names.get(kind)
            if names and self._rng.random() < 0.5:
                value = self._rng.choice(names)
            else:
                value = self._maker.value(kind)
            if value != avoid:
                return value

    def _pick(self, table: Mapping[str, T], weights: Mapping[str, float]) -> T:
        return table[_weighted(self._rng, weights)]


def _weighted(rng: Random, weights: Mapping[T, float]) -> T:
    return rng.choices(tuple(weights), tuple(weights.values()))[0]


def _share(fact: Fact) -> float:
    """A number in [0, 1) that belongs to the fact, the same in every run."""
    return Random(f"share/{fact.id}").random()
