"""Confidence estimators with scripted values."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from .._contracts import Confidence
from .._fingerprint import Fingerprint


class FakeEstimator:
    """Confidence and closed-book answer by question.

    Args:
        values: question → confidence; a missing question has `default`.
        answers: question → closed-book answer.
        default: confidence of all other questions.
        error: raised instead, where given.

    Attributes:
        calls: how often it was asked.
    """

    def __init__(
        self,
        values: Mapping[str, float] | None = None,
        *,
        answers: Mapping[str, str] | None = None,
        default: float = 0.0,
        error: Exception | None = None,
    ) -> None:
        self._values = dict(values or {})
        self._answers = dict(answers or {})
        self._default = default
        self._error = error
        self._lock = threading.Lock()
        self.calls = 0

    @property
    def fingerprint(self) -> Fingerprint:
        """A fingerprint of its own kind."""
        return Fingerprint(kind="fake")

    def estimate(self, question: str) -> Confidence:
        """The scripted confidence, or the scripted error."""
        with self._lock:
            self.calls += 1
        if self._error is not None:
            raise self._error
        return Confidence(
            self._values.get(question, self._default), self._answers.get(question, "an answer")
        )

    async def aestimate(self, question: str) -> Confidence:
        """As `estimate`."""
        return self.estimate(question)
