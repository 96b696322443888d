"""Find sets of answers in a graph, and plausible wrong answers; what is drawn from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from .graph import Facts, Kind, KnowledgeGraph, Labels, Span
from .items import QuestionType
from .properties import GenerationSettings, profile_properties
from .question_templates import Templates

_TRIES = 80


class View(NamedTuple):
    """A property asked for its values, or, inversely, for the subjects of a value."""

    prop: str
    inverse: bool = False


class AnswerSet(NamedTuple):
    """Everything that answers one plain question.

    Attributes:
        view: what is asked for.
        key: of which subject, or of which value.
        answers: ascending; never empty.
    """

    view: View
    key: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Draft:
    """One question, before it is worded in a language.

    Attributes:
        type: of question.
        parts: the plain questions behind it: two of an intersection, else one.
        answers: empty exactly where it is unanswerable.
        options: the two of a dilemma, in order; the right one, where there is one, comes first
            until the pair is taken.
        window: the years asked about, of a question about a time.
    """

    type: QuestionType
    parts: tuple[AnswerSet, ...]
    answers: tuple[str, ...]
    options: tuple[str, ...] = ()
    window: tuple[int, int] | None = None


class FactDraft(NamedTuple):
    """A four-option question on one fact.

    Attributes:
        asked: the plain question.
        target: its right answer that is offered: a node, or a year.
        wrong: three others.
        step: `value`, or the year in which something first was so (`begin`) or last was so
            (`finish`).
        span: years in which the value holds, where they are part of the question.
    """

    asked: AnswerSet
    target: str
    wrong: tuple[str, ...]
    step: str = "value"
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Twins:
    """An answerable question, an unanswerable one that is as alike as can be, and the facts.

    Attributes:
        answerable, unanswerable: the two.
        facts: behind the unanswerable one, as four-option questions.
    """

    answerable: Draft
    unanswerable: Draft
    facts: tuple[FactDraft, ...]

    def turned(self) -> Twins:
        """Return the same with the options of the answerable question the other way round."""
        options = self.answerable.options[::-1]
        return replace(self, answerable=replace(self.answerable, options=options))

    def fact_keys(self) -> Iterator[tuple[str, str]]:
        """Yield (property, subject) of every fact that either stands on."""
        for draft in (self.answerable, self.unanswerable):
            for part in draft.parts:
                subjects = part.answers if part.view.inverse else (part.key,)
                yield from ((part.view.prop, subject) for subject in subjects)


class Material:
    """A graph with what is needed to draw questions from it.

    Args:
        graph: where the facts come from.
        settings: how many and which.
        templates: wordings.

    Attributes:
        labels: names of the graph's nodes.
        properties: all of the graph.
        profiles: those that questions are made of, by IRI.

    Raises:
        InputError: a language without templates, or a property that the graph lacks.
    """

    def __init__(
        self, graph: KnowledgeGraph, settings: GenerationSettings, templates: Templates
    ) -> None:
        for language in settings.languages:
            templates.require(language)
        self.graph, self.settings, self.templates = graph, settings, templates
        self.labels = Labels(graph, settings.languages)
        self.properties = profile_properties(graph, self.labels, templates, settings)
        usable = {profile.iri: profile for profile in self.properties if profile.usable}
        self.profiles = dict(sorted(usable.items()))
        self._members: dict[View, list[str]] = {}

    def facts(self, view: View) -> Facts:
        """Return the facts of a view's property."""
        return self.graph.facts[view.prop]

    def members(self, view: View) -> Sequence[str]:
        """Return everything that answers the view for some key, ascending."""
        if view not in self._members:
            facts = self.facts(view)
            self._members[view] = list(facts.by_subject if view.inverse else facts.by_value)
        return self._members[view]

    def keys(self, view: View, node: str) -> tuple[str, ...]:
        """Return the keys for which a node answers the view, ascending."""
        facts = self.facts(view)
        return (facts.by_subject if view.inverse else facts.by_value).get(node, ())

    def answer_set(self, view: View, key: str) -> AnswerSet | None:
        """Return all answers for a key.

        None where they are too many, not all known or not all named, or where the key is
        nameless or has a namesake.
        """
        facts = self.facts(view)
        if not view.inverse and key in facts.doubtful:
            return None
        answers = (facts.by_value if view.inverse else facts.by_subject).get(key, ())
        if not 0 < len(answers) <= self.settings.rules.max_values:
            return None
        if not self.labels.fit(key) or not self.labels.unique(key):
            return None
        if key in answers or not all(self.labels.fit(answer) for answer in answers):
            return None
        return AnswerSet(view, key, answers)

    def spans(self, subject: str, prop: str) -> tuple[Span, ...]:
        """Return when the values of a subject hold, where the graph says it."""
        return self.graph.facts[prop].dated.get(subject, ())

    def wrong_answers(
        self, asked: AnswerSet, like: str, number: int, rng: Random
    ) -> tuple[str, ...] | None:
        """Draw values of the same kind that are not true; None where there are not so many.

        Of the same kind: they answer the same question about something else and are, where the
        graph says it, of a class of `like`. Not true: no fact of any property links them with
        what is asked about or with an answer (of which they may be a part, or it of them), and
        none of their names overlaps with an answer's.
        """
        pool = self.members(asked.view)
        picked: list[str] = []
        for _ in range(_TRIES):
            node = pool[rng.randrange(len(pool))]
            if self._is_wrong(node, asked, like, picked):
                picked.append(node)
            if len(picked) == number:
                return tuple(picked)
        return None

    def _is_wrong(self, node: str, asked: AnswerSet, like: str, beside: Sequence[str]) -> bool:
        """Whether a node can be offered as a wrong answer, beside others that already are."""
        known, classes = (asked.key, *asked.answers), self.graph.classes
        alike = classes.get(like)
        return not (
            node in known
            or node in beside
            or any(self.graph.are_linked(node, other) for other in known)
            or (alike and alike.isdisjoint(classes.get(node, ())))
            or not self.labels.fit(node)
            or any(self.labels.overlap(node, other) for other in (*asked.answers, *beside))
        )

    def entity_views(self) -> list[View]:
        """Return the views whose answers are entities, asked about entities."""
        found = []
        for prop, profile in self.profiles.items():
            if profile.kind is Kind.ENTITY:
                found.append(View(prop))
                if self.templates.asks_inversely(prop) and self.graph.facts[prop].complete:
                    found.append(View(prop, inverse=True))
        return found


def shuffled(values: Iterable[str], rng: Random) -> list[str]:
    """Return a copy in random order."""
    found = list(values)
    rng.shuffle(found)
    return found


def seeded(*parts: object) -> Random:
    """Make a generator of its own for every purpose; the same in every process."""
    return Random("/".join(str(part) for part in parts))  # noqa: S311
