"""Drafts of questions, before they are worded in a language."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ._answer_sets import AnswerSet
from ._graph import Span
from ._items import QuestionType


@dataclass(frozen=True, slots=True)
class Draft:
    """One question.

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
    answers: tuple[int, ...]
    options: tuple[int, ...] = ()
    window: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class FactDraft:
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
    target: int
    wrong: tuple[int, ...]
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
        """The same with the options of the answerable question the other way round."""
        options = self.answerable.options[::-1]
        return replace(self, answerable=replace(self.answerable, options=options))

    def fact_keys(self) -> Iterator[tuple[int, int]]:
        """(property, subject) of every fact that either stands on."""
        for draft in (self.answerable, self.unanswerable):
            for part in draft.parts:
                if part.view.inverse:
                    yield from ((part.view.prop, answer) for answer in part.answers)
                else:
                    yield part.view.prop, part.key
