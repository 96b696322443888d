"""Conflict detectors with scripted findings."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence

from .._conflict_finding import ConflictFinding, View


class FakeConflictDetector:
    """Finds a conflict for the scripted questions only.

    Args:
        conflicting: questions for which closed-book and context answer differ.
        views: question → the answers there are to it; whether they are a conflict,
            and of which kind, follows from them.

    Attributes:
        calls: how often it was asked.
    """

    def __init__(
        self,
        conflicting: Collection[str] = (),
        *,
        views: Mapping[str, Sequence[View]] | None = None,
    ) -> None:
        self._conflicting = frozenset(conflicting)
        self._views = {question: tuple(said) for question, said in (views or {}).items()}
        self._lock = threading.Lock()
        self.calls = 0

    def detect(self, question: str, closed_book_answer: str, passages: Sequence[str]) -> bool:
        """Whether `question` is a scripted conflict."""
        with self._lock:
            self.calls += 1
        if question in self._views:
            return ConflictFinding.of(self._views[question]).conflict
        return question in self._conflicting

    async def adetect(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> bool:
        """As `detect`."""
        return self.detect(question, closed_book_answer, passages)

    def examine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """The scripted views; without any, the closed-book answer against `another answer`."""
        conflict = self.detect(question, closed_book_answer, passages)
        if question in self._views:
            return ConflictFinding.of(self._views[question])
        every = tuple(range(len(passages)))
        if conflict and closed_book_answer:
            views = [View("another answer", every), View(closed_book_answer, (), True)]
            return ConflictFinding.of(views)
        known = bool(closed_book_answer)
        return ConflictFinding.of([View(closed_book_answer or "an answer", every, known)])

    async def aexamine(
        self, question: str, closed_book_answer: str, passages: Sequence[str]
    ) -> ConflictFinding:
        """As `examine`."""
        return self.examine(question, closed_book_answer, passages)
