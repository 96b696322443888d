"""Cases of the out-of-knowledge-base suite: each question left out, in, or made up."""

from __future__ import annotations

from collections.abc import Sequence

from ...data import KnowledgeBase, QuestionRecord
from ...run import (
    CaseKind,
    Question,
)
from ...systems import Case
from ._bases import AskedBase


def build_cases(
    questions: Sequence[QuestionRecord],
    knowledge_base: KnowledgeBase,
    kinds: Sequence[CaseKind] = CaseKind.twins(),
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


def cases_of(
    base: AskedBase, kinds: Sequence[CaseKind], synthetic: Sequence[Question] = ()
) -> list[Case]:
    """The cases of one knowledge base, question by question; synthetic questions last."""
    kept = [kind for kind in kinds if kind is not CaseKind.SYNTHETIC]
    cases = build_cases(base.asked, base.knowledge_base, kept)
    if CaseKind.SYNTHETIC in kinds:
        cases += [
            Case(
                case_id=f"{question.question_id}/{CaseKind.SYNTHETIC.value}",
                question_id=question.question_id,
                kind=CaseKind.SYNTHETIC,
                question=question.question,
                passage_id="",
            )
            for question in synthetic
        ]
    return cases
