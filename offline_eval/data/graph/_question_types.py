"""Make questions with two options: one is right, or, in the twin, neither.

Options must not tell the twins apart: right answers are drawn as wrong ones are, from all values
alike. Drawn from all facts alike, the commonest values would stand in answerable questions only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from ._answer_sets import MOST_MISSES, Material, View, seeded
from ._drafts import Draft, Twins
from ._facts import value_facts
from ._items import QuestionType

Group = Callable[[], Iterator[Twins]]


def dilemma_groups(material: Material) -> list[Group]:
    """One stream of twins per property."""
    return [
        lambda prop=prop: _draw(material, prop)  # type: ignore[misc]
        for prop in material.properties
    ]


def _draw(material: Material, prop: int) -> Iterator[Twins]:
    rng = seeded(material.settings.seed, "dilemma", material.graph.nodes[prop])
    view = View(prop)
    misses = 0
    for subject, right in _by_value(material, prop, rng):
        misses += 1
        if misses > MOST_MISSES:
            return
        asked = material.answer_set(view, subject)
        if asked is None:
            continue
        wrong = material.wrong_answers(asked, right, 2, rng)
        facts = None if wrong is None else value_facts(material, asked, rng)
        if wrong is None or facts is None:
            continue
        misses = 0
        others = list(wrong)
        rng.shuffle(others)
        yield Twins(
            Draft(QuestionType.DILEMMA, (asked,), (right,), (right, wrong[0])),
            Draft(QuestionType.DILEMMA, (asked,), (), tuple(others)),
            facts,
        )


def _by_value(material: Material, prop: int, rng: Random) -> Iterator[tuple[int, int]]:
    """Subjects, each once, and one of their values: every value as likely as any other.

    Were subjects drawn instead, the commoner of two options would mostly be the right one.
    """
    facts = material.graph.facts[prop]
    values: list[int] = material.members(View(prop)).tolist()
    # Of each value: how many of its subjects had their turn, and which was the first.
    turns: dict[int, tuple[int, int]] = {}
    asked: set[int] = set()
    while values:
        at = rng.randrange(len(values))
        value = values[at]
        holders = facts.holders(value)
        done, start = turns.get(value) or (0, rng.randrange(len(holders)))
        subject = int(holders[(start + done) % len(holders)])
        turns[value] = done + 1, start
        if done + 1 == len(holders):
            values[at] = values[-1]
            values.pop()
        if subject not in asked:
            asked.add(subject)
            yield subject, value
