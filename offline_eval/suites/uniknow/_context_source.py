"""What makes the passages of a data set's contexts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from ._cases import SuiteQuestion
from ._matching import holds_answer


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
        """Return a passage that holds a gold answer."""
        ...

    def conflicting(self, question: SuiteQuestion) -> Stated:
        """Return the same passage with another plausible answer, and without a gold one."""
        ...

    def untrue(self, question: SuiteQuestion) -> Stated:
        """Return the same passage with an implausible false answer."""
        ...

    def random(self, question: SuiteQuestion, count: int) -> list[str]:
        """Return different random passages without a gold answer."""
        ...

    def retrieved(self, question: SuiteQuestion, count: int) -> list[str]:
        """Return the highest-ranked passages without a gold answer, best first."""
        ...


def first_without_answer(
    question: SuiteQuestion, texts: Iterable[str], count: int, *, of: str
) -> list[str]:
    """Return the first `count` texts that do not hold an answer.

    Args:
        question: whose answers must not be there.
        texts: in order of preference.
        count: how many are needed.
        of: what the texts are, for the reason.

    Raises:
        CannotBuildError: there are fewer.
    """
    found = list(islice((t for t in texts if not holds_answer(t, question.answers)), count))
    if len(found) < count:
        raise CannotBuildError(f"too few {of} leave out the answer")
    return found
