"""Two options: one of them right, or, in the twin, neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..uaqfact import QuestionType
from ._answer_sets import MOST_MISSES, Material, View, seeded, shuffled
from ._drafts import Draft, Twins
from ._facts import value_facts

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
    for subject in shuffled(np.unique(material.graph.facts[prop].subjects), rng):
        misses += 1
        if misses > MOST_MISSES:
            return
        asked = material.answer_set(view, subject)
        if asked is None:
            continue
        right = rng.choice(asked.answers)
        wrong = material.wrong_answers(asked, right, 2, rng)
        facts = None if wrong is None else value_facts(material, asked, rng)
        if wrong is None or facts is None:
            continue
        misses = 0
        offered = [right, wrong[0]]
        rng.shuffle(offered)
        others = list(wrong)
        rng.shuffle(others)
        yield Twins(
            Draft(QuestionType.DILEMMA, (asked,), (right,), tuple(offered)),
            Draft(QuestionType.DILEMMA, (asked,), (), tuple(others)),
            facts,
        )
