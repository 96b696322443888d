"""Cases of the out-of-knowledge-base suite: each question twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..knowledge_base import KnowledgeBase, QuestionRecord


class CaseKind(StrEnum):
    """Whether the question's own passage is in the knowledge base."""

    IN_KB = "in_kb"
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class Case:
    """One question against one state of the knowledge base.

    Attributes:
        case_id: `<question id>/<kind>`.
        question_id: of the question.
        kind: in the knowledge base, or left out.
        question: what is asked; the only thing the retriever sees.
        passage_id: the question's own passage.
    """

    case_id: str
    question_id: str
    kind: CaseKind
    question: str
    passage_id: str


def build_cases(questions: Sequence[QuestionRecord], knowledge_base: KnowledgeBase) -> list[Case]:
    """Two cases per question, in the order of the questions.

    Source: leave-one-out construction of KnowOrNot, with the in-KB twin added so
    that false abstention can be measured on the same questions.
    """
    return [
        Case(
            case_id=f"{record.question_id}/{kind.value}",
            question_id=record.question_id,
            kind=kind,
            question=record.question,
            passage_id=knowledge_base.passage_of[record.question_id],
        )
        for record in questions
        for kind in CaseKind
    ]
