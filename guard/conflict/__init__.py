"""Conflict: do context and model, or the passages themselves, contradict each other?

Add a detector by matching the `ConflictDetector` protocol, or `ConflictExaminer`
where it can tell which answers there are. What counts as the same answer is a
function of two: `same_answer`, `SameMeaning()`, or one's own.
"""

from __future__ import annotations

from .._conflict_finding import ConflictExaminer, ConflictFinding, View
from ._answer_conflict import AnswerConflict
from ._entailment import CrossEncoderEntailment
from ._meaning_rules import Rule, judge_by_rules
from ._passage_conflict import PassageConflict
from ._same_meaning import Embedder, EntailmentModel, SameMeaning

__all__ = [
    "AnswerConflict",
    "ConflictExaminer",
    "ConflictFinding",
    "CrossEncoderEntailment",
    "Embedder",
    "EntailmentModel",
    "PassageConflict",
    "Rule",
    "SameMeaning",
    "View",
    "judge_by_rules",
]
