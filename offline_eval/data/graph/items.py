"""Questions of the suite: unanswerable ones, their answerable twins, and the facts behind both.

Source: "UAQFact: Evaluating Factual Knowledge Utilization of LLMs on Unanswerable Questions".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, model_validator

from ..fields import Filled, NamedText

LANGUAGES = ("en", "zh")


class QuestionType(StrEnum):
    """What makes a question of this type unanswerable.

    `inter`: the intersection of two answer sets is empty. `time`: nothing meets the time
    constraint. `dilemma`: both options offered are wrong.
    """

    INTER = "inter"
    TIME = "time"
    DILEMMA = "dilemma"


class Answerability(StrEnum):
    """Whether a question has an answer: `ua` (it has none) or `ab` (it has)."""

    UNANSWERABLE = "ua"
    ANSWERABLE = "ab"


@dataclass(frozen=True, slots=True)
class Answer:
    """An accepted answer.

    Attributes:
        id: of the entity or value.
        label: how it is called in the question's language.
        aliases: further names; published sets have none.
    """

    id: Annotated[str, BeforeValidator(str)]
    label: Filled
    aliases: tuple[NamedText, ...] = ()


@dataclass(frozen=True, slots=True)
class Triple:
    """A fact, by labels.

    Attributes:
        start: from when it holds, as written (a year); empty where it has no bounds.
        end: until when.
    """

    subject: Filled
    relation: Filled
    object: Filled
    start: NamedText = ""
    end: NamedText = ""

    def __str__(self) -> str:
        """Write the fact as one line.

        Example:
            >>> str(Triple("Ann Li", "mayor of", "Rill", "1990", "1995"))
            'Ann Li — mayor of — Rill (1990–1995)'
        """
        bounds = f" ({self.start or '?'}–{self.end or '?'})" if self.start or self.end else ""
        return f"{self.subject} — {self.relation} — {self.object}{bounds}"


@dataclass(frozen=True, slots=True)
class Clue:
    """One step of the reasoning: a simpler question with its answers' labels."""

    question: str
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UaqItem:
    """One question of tasks 1 and 3.

    Attributes:
        qid: as published; unique only together with type, kind and language, see `key`.
        language: `en` or `zh`, or another one of a generated set.
        type: what kind of constraint it has.
        kind: whether it can be answered.
        question: as asked.
        answers: all accepted ones; empty exactly for unanswerable questions.
        options: the two that a dilemma offers, in order; otherwise empty. Empty too where
            they cannot be told apart in the question.
        clues: the steps that lead to the answer, for task 3; empty where the set has none.
        triples: the facts behind it; published sets have none.
    """

    qid: str
    language: str
    type: QuestionType
    kind: Answerability
    question: str
    answers: tuple[Answer, ...]
    options: tuple[str, ...] = ()
    clues: tuple[Clue, ...] = ()
    triples: tuple[Triple, ...] = ()

    @property
    def key(self) -> str:
        """Unique in a set: language, type, kind and id."""
        return f"{self.language}/{self.type.value}/{self.kind.value}/{self.qid}"

    @property
    def unanswerable(self) -> bool:
        """Whether abstaining is right."""
        return self.kind is Answerability.UNANSWERABLE


class ChoiceItem(BaseModel, frozen=True, validate_by_name=True):
    """One four-option question of task 2, on a fact behind questions of task 1.

    Attributes:
        qid: unique only together with type and language, see `key`.
        options: as offered, four.
        target: the right one, as it stands among them.
        relevant: ids of the questions of task 1 that need this fact.
    """

    qid: Filled
    language: str
    type: QuestionType
    question: Filled
    options: Annotated[tuple[NamedText, ...], Field(min_length=4, max_length=4)]
    target: Filled = Field(validation_alias="target_options")
    # So spelled in the published files.
    relevant: Annotated[tuple[NamedText, ...], Field(min_length=1)] = Field(
        validation_alias=AliasChoices("relevent_qid_list", "relevant_qid_list")
    )

    @model_validator(mode="after")
    def _has_its_target(self) -> Self:
        if self.target not in self.options:
            raise ValueError("'target_options' is none of the options")
        return self

    @property
    def key(self) -> str:
        """Unique in a set: language, type and id."""
        return f"{self.language}/{self.type.value}/{self.qid}"


_BETWEEN = (" or ", "还是")
_EDGES = " ,，?？"


def dilemma_options(question: str, known: Iterable[str], *, stem: str = "") -> tuple[str, ...]:
    """The options in the order in which they are offered; () where they cannot be told apart.

    Args:
        question: "what does X hold, A or B ?", or "…，A还是B ？".
        known: labels of which some may be options: the longest that fit are taken, so
            that an "or" within a label does no harm.
        stem: the question without its options, where known.

    Example:
        >>> dilemma_options("what is X, black or white or red ?", ["black or white"])
        ('black or white', 'red')
    """
    labels = {label.strip() for label in known} - {""}
    text, stem = question.rstrip(_EDGES), stem.rstrip(_EDGES)
    whole = not stem or not text.startswith(stem)
    offered = text if whole else text[len(stem) :].strip(_EDGES)
    for between in _BETWEEN:
        parts = offered.split(between)
        pairs = [
            (between.join(parts[:at]), between.join(parts[at:]).strip(_EDGES))
            for at in range(1, len(parts))
        ]
        # How long a label is the second option, and how long one ends what stands before it.
        found = [
            (len(second) if second in labels else 0, _longest(first, labels), first, second)
            for first, second in pairs
        ]
        known_second, known_first, first, second = max(found, default=(0, 0, "", ""))
        if len(pairs) > 1 and not (known_first or known_second):
            continue
        if known_first:
            first = first[-known_first:]
        elif whole:
            first = _after_comma(first)
        if first.strip(_EDGES) and second:
            return first.strip(_EDGES), second
    return ()


def _longest(text: str, labels: Iterable[str]) -> int:
    """The length of the longest label that a text ends with."""
    return max((len(label) for label in labels if text.endswith(label)), default=0)


def _after_comma(text: str) -> str:
    # Options follow the question's last comma; one with a comma in itself needs a stem.
    return next((text.rpartition(comma)[2] for comma in (", ", "，") if comma in text), "")
