"""Knowledge bases: questions with answers, and the passages they are asked against."""

from __future__ import annotations

from ._embedding import Encoder, embed_all
from ._questions import (
    KnowledgeBase,
    PassageKind,
    QuestionRecord,
    build_knowledge_base,
    read_questions,
)

__all__ = [
    "Encoder",
    "KnowledgeBase",
    "PassageKind",
    "QuestionRecord",
    "build_knowledge_base",
    "embed_all",
    "read_questions",
]
