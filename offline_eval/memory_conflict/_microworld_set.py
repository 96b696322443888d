"""Questions of the microworld: what its language model was taught, and what contradicts it."""

from __future__ import annotations

from random import Random

from ..microworld import Fact, FactStatus, World, default_world
from ._items import Candidate, ConflictItem

MICROWORLD = "microworld"
_DISTRACTORS = 20


def microworld_items(world: World | None = None) -> tuple[ConflictItem, ...]:
    """A question per taught fact, in a phrasing that training never used.

    The taught value is the first answer and the given belief, with the document about its
    subject; the second one is the plausible falsehood of `World.contradiction`, with its
    document, the third the implausible one. Distractors are further values of the relation.

    Args:
        world: the bundled one by default.
    """
    found = world or default_world()
    return tuple(_item(found, fact) for fact in found.facts_with_status(FactStatus.TAUGHT))


def _item(world: World, fact: Fact) -> ConflictItem:
    rng = Random(f"{world.seed}/{fact.id}/conflict")  # noqa: S311 - a draw, no secret
    wordings = [question.text for question in world.questions(fact, held_out=True)]
    rng.shuffle(wordings)
    plausible = world.contradicting_value(fact)
    others = [value for value in world.alternatives(fact) if value != plausible]
    rng.shuffle(others)
    answers = [Candidate(fact.value, _aliases(world, fact, fact.value), _document(world, fact))]
    for likely in (True, False):
        value = world.contradicting_value(fact, plausible=likely)
        answers.append(
            Candidate(
                value,
                _aliases(world, fact, value),
                (world.contradiction(fact, plausible=likely).text,),
                implausible=not likely,
            )
        )
    return ConflictItem(
        key=f"{MICROWORLD}/{fact.id}",
        question=wordings[0],
        answers=tuple(answers),
        given=0,
        wordings=tuple(wordings[1:]),
        distractors=tuple(others[:_DISTRACTORS]),
    )


def _document(world: World, fact: Fact) -> tuple[str, ...]:
    # Beside the document one bare sentence, in a phrasing that documents do not have.
    return world.document_for(fact).text, world.statement(fact, phrasing=0)


def _aliases(world: World, fact: Fact, value: str) -> tuple[str, ...]:
    return world.aliases(value, fact.value_kind)
