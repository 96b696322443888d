"""The UAQFact question format: items, reading and writing of its files."""

from __future__ import annotations

from ._files import read_layout
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
from ._writing import write_layout

__all__ = [
    "Answer",
    "Answerability",
    "ChoiceItem",
    "Clue",
    "QuestionType",
    "Triple",
    "UaqData",
    "UaqItem",
    "read_layout",
    "write_layout",
]
