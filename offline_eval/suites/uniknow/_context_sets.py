"""Contexts that were built, those that could not be, and what builds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from ._cases import Context, ContextKind, SuiteQuestion


@dataclass(frozen=True, slots=True)
class ContextProblem:
    """A kind of context that could not be built for a question.

    Attributes:
        question_id: of the question.
        kind: the kind that is missing.
        reason: why, in words of this package; never text from the data.
    """

    question_id: str
    kind: ContextKind
    reason: str


@dataclass(slots=True)
class ContextSet:
    """The contexts of a data set.

    Attributes:
        contexts: question id → kind → context; every question has an entry, and a kind
            that could not be built is missing from it.
        problems: what is missing and why.
    """

    contexts: dict[str, dict[ContextKind, Context]] = field(default_factory=dict)
    problems: list[ContextProblem] = field(default_factory=list)


class CannotBuildError(Exception):
    """A context cannot be built; the message is the reason. Never leaves the suite."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A text with the answer that it states.

    Attributes:
        text: the passage.
        answers: what it says the answer is, with aliases.
    """

    text: str
    answers: tuple[str, ...]


class ContextSource(Protocol):
    """Makes the passages of one data set; each method may raise `CannotBuildError`."""

    def original(self, question: SuiteQuestion) -> Stated:
        """A passage that holds a gold answer."""
        ...

    def conflicting(self, question: SuiteQuestion) -> Stated:
        """The same with another plausible answer, and without a gold one."""
        ...

    def untrue(self, question: SuiteQuestion) -> Stated:
        """The same with an implausible falsehood in the answer's place."""
        ...

    def random(self, question: SuiteQuestion, count: int) -> list[str]:
        """Different passages without a gold answer, picked by chance."""
        ...

    def retrieved(self, question: SuiteQuestion, count: int) -> list[str]:
        """The highest-ranked passages without a gold answer, best first."""
        ...
