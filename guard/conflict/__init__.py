"""Conflict: do context and model contradict each other?

Add a detector by matching the `ConflictDetector` protocol.
"""

from __future__ import annotations

from ._answer_conflict import AnswerConflict

__all__ = ["AnswerConflict"]
