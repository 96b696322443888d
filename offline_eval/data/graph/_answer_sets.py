"""Find sets of answers in a graph, and plausible wrong answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

import numpy as np

from ._graph import Facts, Ids, Kind, KnowledgeGraph, Span
from ._labels import Labels
from ._properties import PropertyProfile
from ._settings import GenerationSettings
from ._templates import Templates

_TRIES = 80
MOST_MISSES = 500
"""So many failures in a row, and a property is taken to give no more questions."""


@dataclass(frozen=True, slots=True)
class View:
    """A property asked for its values, or, inversely, for the subjects of a value."""

    prop: int
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """Everything that answers one plain question.

    Attributes:
        view: what is asked for.
        key: of which subject, or of which value.
        answers: ascending; never empty.
    """

    view: View
    key: int
    answers: tuple[int, ...]


class Material:
    """A graph with what is needed to draw questions from it.

    Args:
        graph: where the facts come from.
        labels: names of its nodes.
        templates: wordings.
        profiles: of its properties; questions are made of the usable ones.
        settings: how many and which.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        labels: Labels,
        templates: Templates,
        profiles: Iterable[PropertyProfile],
        settings: GenerationSettings,
    ) -> None:
        self.graph, self.labels, self.templates = graph, labels, templates
        self.settings = settings
        self.profiles: Mapping[int, PropertyProfile] = {
            profile.prop: profile for profile in profiles if profile.usable
        }
        self._members: dict[View, Ids] = {}

    def facts(self, view: View) -> Facts:
        """The facts of a view's property."""
        return self.graph.facts[view.prop]

    @cached_property
    def properties(self) -> tuple[int, ...]:
        """The usable properties, by IRI."""
        return tuple(sorted(self.profiles))

    def members(self, view: View) -> Ids:
        """Everything that answers the view for some key, ascending."""
        if view not in self._members:
            facts = self.facts(view)
            self._members[view] = np.unique(facts.subjects if view.inverse else facts.objects)
        return self._members[view]

    def answer_set(self, view: View, key: int) -> AnswerSet | None:
        """All answers for a key.

        None where they are too many, not all known or not all named, or where the key is
        nameless or has a namesake.
        """
        facts = self.facts(view)
        if not view.inverse and facts.is_doubtful(key):
            return None
        found = facts.holders(key) if view.inverse else facts.values(key)
        if not 0 < len(found) <= self.settings.rules.max_values:
            return None
        answers = tuple(found.tolist())
        if not self.labels.fit(key) or not self.labels.unique(key):
            return None
        if key in answers or not all(self.labels.fit(answer) for answer in answers):
            return None
        return AnswerSet(view, key, answers)

    def spans(self, subject: int, prop: int) -> tuple[Span, ...]:
        """When the values of a subject hold, where the graph says it."""
        return self.graph.facts[prop].spans(subject)

    def wrong_answers(
        self, asked: AnswerSet, like: int, number: int, rng: Random
    ) -> tuple[int, ...] | None:
        """Values of the same kind that are not true; None where there are not so many.

        Of the same kind: they answer the same question about something else and are, where the
        graph says it, of a class of `like`. Not true: no fact of any property links them with
        what is asked about or with an answer (of which they may be a part, or it of them), and
        none of their names overlaps with an answer's.
        """
        pool = self.members(asked.view)
        picked: list[int] = []
        for _ in range(_TRIES):
            node = int(pool[rng.randrange(len(pool))])
            if self.is_wrong(node, asked, like, picked):
                picked.append(node)
            if len(picked) == number:
                return tuple(picked)
        return None

    def is_wrong(self, node: int, asked: AnswerSet, like: int, beside: Sequence[int]) -> bool:
        """Whether a node can be offered as a wrong answer, beside others that already are."""
        if node in asked.answers or node == asked.key or node in beside:
            return False
        if any(self.graph.are_linked(node, known) for known in (asked.key, *asked.answers)):
            return False
        classes = self.graph.classes(like)
        if classes and not classes & self.graph.classes(node):
            return False
        if not self.labels.fit(node):
            return False
        return not any(self.labels.overlap(node, other) for other in (*asked.answers, *beside))

    def entity_views(self) -> list[View]:
        """Views whose answers are entities, asked about entities."""
        found = []
        for prop in self.properties:
            if self.profiles[prop].kind is Kind.ENTITY:
                found.append(View(prop))
                both = self.templates.asks_inversely(self.graph.nodes[prop])
                if both and self.graph.facts[prop].complete:
                    found.append(View(prop, inverse=True))
        return found


def shuffled(values: Ids, rng: Random) -> list[int]:
    """A copy in random order."""
    found: list[int] = values.tolist()
    rng.shuffle(found)
    return found


def seeded(*parts: object) -> Random:
    """A generator of its own for every purpose; the same in every process."""
    return Random("/".join(str(part) for part in parts))  # noqa: S311
