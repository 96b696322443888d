"""What the suite asks about: questions with several answers, evidence, tasks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ...guard import InputError, canonical_answer


class Task(StrEnum):
    """What a model is told to do with the passage before it.

    `KF` copies the sentence that answers, `CK` answers from the context only, `PK` from its
    own knowledge only, `PCK` gives both views, `RAG` answers from two passages that stand
    side by side and is not told which of them to prefer.
    """

    KF = "KF"
    CK = "CK"
    PK = "PK"
    PCK = "PCK"
    RAG = "RAG"


CHOICE_TASKS = (Task.CK, Task.PK, Task.PCK, Task.RAG)


class EvidenceKind(StrEnum):
    """How a passage stands to what the model believes.

    `NC` agrees, `HPC` contradicts with a plausible answer, `HPCE` is that passage followed
    by a rationale, `LPC` contradicts with an implausible answer.
    """

    NC = "NC"
    HPC = "HPC"
    HPCE = "HPCE"
    LPC = "LPC"


CONFLICTS = (EvidenceKind.HPC, EvidenceKind.HPCE, EvidenceKind.LPC)


class UnusableQuestionError(InputError):
    """A question that can be read, and from which no conflict can be made."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An answer to a question.

    Attributes:
        text: as an option shows it.
        aliases: further ways to write it.
        passages: that give this answer; the first is the evidence, a second one stands beside
            it where two passages are wanted. May be empty: an editor then writes one.
        implausible: nobody would take it for an answer; serves as LPC and is never a belief.
    """

    text: str
    aliases: tuple[str, ...] = ()
    passages: tuple[str, ...] = ()
    implausible: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The text and its aliases."""
        return (self.text, *self.aliases)


@dataclass(frozen=True, slots=True)
class ConflictItem:
    """A question with two or more acceptable answers.

    Attributes:
        key: unique in its set.
        question: as it is asked.
        answers: the candidates, different from each other.
        given: position of the answer that the model is known to believe, None where that is
            to be found out.
        wordings: other ways to ask the question.
        distractors: wrong answers of the same kind that no passage gives.

    Raises:
        UnusableQuestionError: question or answer is empty, an answer stands there twice, fewer
            than two are acceptable, or `given` is no acceptable one.
    """

    key: str
    question: str
    answers: tuple[Candidate, ...]
    given: int | None = None
    wordings: tuple[str, ...] = ()
    distractors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        texts = [answer.text for answer in self.answers]
        if not self.question.strip() or not all(text.strip() for text in texts):
            raise UnusableQuestionError("the question or an answer is empty", where=self.key)
        if self._repeats():
            raise UnusableQuestionError("two answers are the same", where=self.key)
        if len(self.acceptable) < 2:
            raise UnusableQuestionError("needs two or more acceptable answers", where=self.key)
        if self.given is not None and self.given not in self.acceptable:
            raise UnusableQuestionError(
                "the belief is none of the acceptable answers", where=self.key
            )

    def _repeats(self) -> bool:
        """Whether an answer is another one written in another way, or one of its aliases."""
        names = [{_folded(name) for name in answer.names} for answer in self.answers]
        return any(
            _folded(answer.text) in others
            for number, answer in enumerate(self.answers)
            for place, others in enumerate(names)
            if place != number
        )

    @property
    def acceptable(self) -> tuple[int, ...]:
        """Positions of the answers that may be believed."""
        return tuple(i for i, answer in enumerate(self.answers) if not answer.implausible)


def _folded(text: str) -> str:
    # What is nothing but signs has no canonical form.
    return canonical_answer(text) or text
