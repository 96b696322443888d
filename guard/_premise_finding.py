"""What a detector of false premises says, and how the guard asks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


class Premise(StrEnum):
    """Whether a question has an answer, as far as the passages tell."""

    ANSWERABLE = "answerable"
    UNANSWERABLE = "unanswerable"
    UNDECIDED = "undecided"


class PremiseFault(StrEnum):
    """Why a question has no answer.

    `empty_intersection`: nothing meets all its conditions. `impossible_time`: nothing holds
    at the time it asks about. `false_options`: none of the options it offers is right.
    """

    EMPTY_INTERSECTION = "empty_intersection"
    IMPOSSIBLE_TIME = "impossible_time"
    FALSE_OPTIONS = "false_options"


@dataclass(frozen=True, slots=True)
class Answerability:
    """What the passages tell of a question's premise.

    Attributes:
        premise: `undecided` where they do not tell, which changes nothing.
        fault: why there is no answer; None unless `unanswerable`.
        probability: that there is an answer, in [0, 1]; None where the detector knows no in
            between.
        passages: indices of the passages that decided it, rising.
    """

    premise: Premise
    fault: PremiseFault | None = None
    probability: float | None = None
    passages: tuple[int, ...] = ()


@runtime_checkable
class AnswerabilityDetector(Protocol):
    """Tells questions that nothing in the passages can satisfy from those that have an answer."""

    def detect(self, question: str, passages: Sequence[str]) -> Answerability:
        """The verdict on one question; may find it undecided, and often should."""
        ...

    async def adetect(self, question: str, passages: Sequence[str]) -> Answerability:
        """As `detect`, without blocking the event loop."""
        ...
