"""Knowledge bases: questions with answers, and the passages they are asked against."""

from __future__ import annotations

from ._embedding import Encoder, embed_all
from ._fields import Fields
from ._labels import Label, units
from ._questions import KnowledgeBase, PassageKind, QuestionRecord

__all__ = [
    "Encoder",
    "Fields",
    "KnowledgeBase",
    "Label",
    "PassageKind",
    "QuestionRecord",
    "embed_all",
    "units",
]
