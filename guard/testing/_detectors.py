"""Conflict detectors with scripted findings."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence


class FakeConflictDetector:
    """Finds a conflict for the scripted questions only.

    Args:
        conflicting: questions for which there is one.

    Attributes:
        calls: how often it was asked.
    """

    def __init__(self, conflicting: Collection[str] = ()) -> None:
        self._conflicting = frozenset(conflicting)
        self._lock = threading.Lock()
        self.calls = 0

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        """Whether `question` is a scripted conflict."""
        with self._lock:
            self.calls += 1
        return question in self._conflicting

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        """As `detect`."""
        return self.detect(question, closed_book_answer, passages)
