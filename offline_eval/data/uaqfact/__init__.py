"""The UAQFact question format: items, reading and writing of its files."""

from __future__ import annotations

from ._items import (
    Answer,
    Answerability,
    ChoiceItem,
    Clue,
    QuestionType,
    Triple,
    UaqData,
    UaqItem,
)

__all__ = [
    "Answer",
    "Answerability",
    "ChoiceItem",
    "Clue",
    "QuestionType",
    "Triple",
    "UaqData",
    "UaqItem",
]
