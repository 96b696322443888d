"""Fakes that only tests of the guard itself need; `knowgate.guard.testing` has the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from knowgate.guard import Fingerprint
from knowgate.guard.contracts import Answerability, Premise, SetScore
from knowgate.guard.signals.answerability import AnswerabilityVeto
from knowgate.guard.testing import FakeScorer


class ScriptedAnswerability(AnswerabilityVeto):
    """Give the scripted verdict on each question; others are undecided.

    Args:
        verdicts: question → the verdict on it.
        error: raised instead of any verdict.
        seconds: how long every verdict takes.

    Attributes:
        calls: how often it was asked.
        seen: the passages it was given, call by call.
    """

    def __init__(
        self,
        verdicts: Mapping[str, Answerability] | None = None,
        *,
        error: BaseException | None = None,
        seconds: float = 0.0,
    ) -> None:
        self._verdicts = dict(verdicts or {})
        self._error, self._seconds = error, seconds
        self.calls = 0
        self.seen: list[tuple[str, ...]] = []

    @property
    def fingerprint(self) -> Fingerprint:
        """A fingerprint of its own kind."""
        return Fingerprint(kind="fake")

    def detect(self, question: str, passages: Sequence[str]) -> Answerability:
        """The scripted verdict."""
        time.sleep(self._seconds)
        return self._verdict(question, passages)

    async def adetect(self, question: str, passages: Sequence[str]) -> Answerability:
        """As `detect`, without blocking the event loop."""
        await asyncio.sleep(self._seconds)
        return self._verdict(question, passages)

    def _verdict(self, question: str, passages: Sequence[str]) -> Answerability:
        self.calls += 1
        self.seen.append(tuple(passages))
        if self._error is not None:
            raise self._error
        return self._verdicts.get(question, Answerability(Premise.UNDECIDED))


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
    """A slow scorer, to test deadlines.

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
