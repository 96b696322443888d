"""Answerability: whether anything in the passages can satisfy the question.

    question ─► its conditions (two halves, a period, two options)
    passages ─► what they state (answered questions, triples, sentences)
                both ─► PremiseChecker ─► answerable | unanswerable, with the fault | undecided

Add a detector by deriving from `AnswerabilityVeto`.
"""

from __future__ import annotations

from ._checker import AnswerabilityVeto, PremiseChecker

__all__ = ["AnswerabilityVeto", "PremiseChecker"]
