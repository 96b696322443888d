"""Knowledge bases: questions with answers, and the passages they are asked against."""

from __future__ import annotations

from ._passages import KnowledgeBase, PassageKind, build_knowledge_base
from ._questions import QuestionRecord, read_questions

__all__ = [
    "KnowledgeBase",
    "PassageKind",
    "QuestionRecord",
    "build_knowledge_base",
    "read_questions",
]
