"""Relevance scorers with scripted scores."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from .._contracts import SetScore
from .._fingerprint import Fingerprint


class FakeScorer:
    """Scores a passage by the first scripted fragment it contains.

    Args:
        scores: fragment → score for passages that contain it.
        default: score of all other passages; may be NaN, to test failures.

    Attributes:
        calls: how often it was asked to score.
    """

    def __init__(self, scores: Mapping[str, float] | None = None, *, default: float = 0.0) -> None:
        self._scores = dict(scores or {})
        self._default = default
        self._lock = threading.Lock()
        self.calls = 0

    @property
    def fingerprint(self) -> Fingerprint:
        """A fingerprint of its own kind."""
        return Fingerprint(kind="fake")

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Scripted scores of shape (len(passages),)."""
        return self.score_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Scripted scores of shape (len(pairs),)."""
        with self._lock:
            self.calls += 1
        return np.asarray([self._one(passage) for _, passage in pairs], dtype=np.float64)

    def _one(self, passage: str) -> float:
        for fragment, score in self._scores.items():
            if fragment in passage:
                return score
        return self._default


class FakeSetScorer(FakeScorer):
    """A scorer that also judges passages together: the joint value is the scores' sum.

    Args:
        scores: fragment → score for passages that contain it.
        default: score of all other passages; may be NaN, to test failures.
        unsupported: fragments of questions in a language that it does not know.
    """

    def __init__(
        self,
        scores: Mapping[str, float] | None = None,
        *,
        default: float = 0.0,
        unsupported: Sequence[str] = (),
    ) -> None:
        super().__init__(scores, default=default)
        self._unsupported = tuple(unsupported)

    def supports(self, question: str) -> bool:
        """False for questions with one of the fragments."""
        return not any(fragment in question for fragment in self._unsupported)

    def score_set(self, question: str, passages: Sequence[str]) -> SetScore:
        """The scripted scores and their sum."""
        return self.score_sets([question], [passages])[0]

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """The scripted scores and their sum, for each question."""
        scores = iter(self.score_pairs([("", text) for texts in passages for text in texts]))
        found = [tuple(float(next(scores)) for _ in texts) for texts in passages]
        return [SetScore(one, sum(one)) for one in found]


class SlowScorer(FakeScorer):
    """A scorer that takes its time, to test deadlines.

    Args:
        seconds: how long each call takes.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Zeros, late."""
        time.sleep(self._seconds)
        return super().score_pairs(pairs)


class FailingScorer(FakeScorer):
    """A scorer that raises, to test failures.

    Args:
        error: what it raises; its message stands for text that must not be logged.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Raises the scripted error."""
        raise self._error
