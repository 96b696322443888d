"""The UAQFact question format: items, reading and writing of its files."""

from __future__ import annotations

from ._files import ALL_TASKS, Layout, read_layout
from ._items import (
    Answer,
    Answerability,
    ChoiceItem,
    Clue,
    QuestionType,
    Triple,
    UaqData,
    UaqItem,
    dilemma_options,
)
from ._writing import write_layout

__all__ = [
    "ALL_TASKS",
    "Answer",
    "Answerability",
    "ChoiceItem",
    "Clue",
    "Layout",
    "QuestionType",
    "Triple",
    "UaqData",
    "UaqItem",
    "dilemma_options",
    "read_layout",
    "write_layout",
]
