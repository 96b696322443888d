"""Cases of the out-of-knowledge-base suite: each question twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..data import KnowledgeBase, QuestionRecord
from ..run import TWINS, CaseKind


@dataclass(frozen=True, slots=True)
class Case:
    """One question against one state of the knowledge base.

    Attributes:
        case_id: `<question id>/<kind>`.
        question_id: of the question.
        kind: what the knowledge base holds of the answer.
        question: what is asked; the only thing the retriever sees.
        passage_id: the question's own passage; empty for a made-up question, whose answer
            no passage holds.
    """

    case_id: str
    question_id: str
    kind: CaseKind
    question: str
    passage_id: str


def build_cases(
    questions: Sequence[QuestionRecord],
    knowledge_base: KnowledgeBase,
    kinds: Sequence[CaseKind] = TWINS,
) -> list[Case]:
    """One case per question and kind, in the order of the questions.

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
        for kind in kinds
    ]
