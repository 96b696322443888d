"""Conflict: do context and model, or the passages themselves, contradict each other?

Add a detector by matching the `ConflictDetector` protocol, or `ConflictExaminer`
where it can tell which answers there are. What counts as the same answer is a
function of two: `same_answer`, `SameMeaning()`, or one's own.
"""

from __future__ import annotations

from ._detectors import AnswerConflict, CrossEncoderEntailment, PassageConflict, SameMeaning

__all__ = [
    "AnswerConflict",
    "CrossEncoderEntailment",
    "PassageConflict",
    "SameMeaning",
]
