"""A scorer and an estimator that cache what they measured.

Four contexts and two guards ask about the same question: no value is measured twice, within a
run or after a kill. Fingerprints are those of the wrapped scorer and estimator, because a cached
value is the same value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ....guard.contracts import Confidence, ConfidenceEstimator, RelevanceScorer, SetScore
from ....guard.errors import KnowgateError
from ....guard.policy import Fingerprint

_Passages = tuple[str, ...]


class RememberingScorer:
    """A scorer of single passages that caches its scores, see `over`.

    Args:
        scorer: what measures.
    """

    def __init__(self, scorer: RelevanceScorer) -> None:
        self._scorer = scorer
        self._scores: dict[tuple[str, str], float] = {}
        self._joint: dict[tuple[str, _Passages], float] = {}

    @classmethod
    def over(cls, scorer: RelevanceScorer) -> RememberingScorer:
        """Wrap a scorer; the result scores sets of passages if `scorer` does."""
        sets = all(callable(getattr(scorer, name, None)) for name in ("score_set", "score_sets"))
        return RememberingSetScorer(scorer) if sets else cls(scorer)

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the scorer itself."""
        return self._scorer.fingerprint

    def supports(self, question: str) -> bool:
        """Return whether the scorer knows the question's language."""
        supports = getattr(self._scorer, "supports", None)
        return True if supports is None else supports(question)

    def remember(
        self, question: str, passages: Sequence[str], scores: Sequence[float], joint: float
    ) -> None:
        """Add values that were measured before."""
        self._joint[question, tuple(passages)] = joint
        for passage, score in zip(passages, scores, strict=True):
            self._scores[question, passage] = score

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Return scores of shape (len(passages),)."""
        return self.score_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return scores of shape (len(pairs),)."""
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._scores]
        if new:
            found = self._scorer.score_pairs(new)
            self._scores.update(zip(new, map(float, found), strict=True))
        return np.asarray([self._scores[pair] for pair in pairs], dtype=np.float64)


class RememberingSetScorer(RememberingScorer):
    """A caching scorer that also scores several passages together."""

    def score_set(self, question: str, passages: Sequence[str]) -> SetScore:
        """Return the scores of one or more passages, and their joint score."""
        [found] = self.score_sets([question], [passages])
        return found

    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """Return `score_set` of each question with its passages."""
        sets = [(q, tuple(some)) for q, some in zip(questions, passages, strict=True)]
        new = [one for one in dict.fromkeys(sets) if one not in self._joint]
        if new:
            scorer: Any = self._scorer
            found = scorer.score_sets([q for q, _ in new], [list(some) for _, some in new])
            for (question, some), score in zip(new, found, strict=True):
                self.remember(question, some, score.scores, score.joint)
        return [
            SetScore(tuple(self._scores[q, passage] for passage in some), self._joint[q, some])
            for q, some in sets
        ]


class RememberingEstimator:
    """A confidence estimator that asks about each question once; failures are not cached.

    Args:
        estimator: what measures.
    """

    def __init__(self, estimator: ConfidenceEstimator) -> None:
        self._estimator = estimator
        self._found: dict[str, Confidence] = {}

    @property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the estimator itself."""
        return self._estimator.fingerprint

    def remember(self, question: str, confidence: Confidence) -> None:
        """Add values that were measured before."""
        self._found[question] = confidence

    def estimate(self, question: str) -> Confidence:
        """Return the confidence in the closed-book answer to `question`."""
        if question not in self._found:
            self._found[question] = self._estimator.estimate(question)
        return self._found[question]

    async def aestimate(self, question: str) -> Confidence:
        """Do as `estimate`, without blocking the event loop."""
        if question not in self._found:
            self._found[question] = await self._estimator.aestimate(question)
        return self._found[question]

    def estimate_many(
        self, questions: Sequence[str], *, on_error: Literal["raise", "return"] = "raise"
    ) -> list[Confidence | KnowgateError]:
        """Return one confidence per question; with "return" errors take the place of values."""
        new = [question for question in dict.fromkeys(questions) if question not in self._found]
        failed = self._ask(new, on_error) if new else {}
        return [failed.get(question) or self._found[question] for question in questions]

    async def aestimate_many(
        self, questions: Sequence[str], *, on_error: Literal["raise", "return"] = "raise"
    ) -> list[Confidence | KnowgateError]:
        """Do as `estimate_many`, question by question."""
        found: list[Confidence | KnowgateError] = []
        for question in questions:
            try:
                found.append(await self.aestimate(question))
            except KnowgateError as error:
                if on_error == "raise":
                    raise
                found.append(error)
        return found

    def _ask(
        self, questions: list[str], on_error: Literal["raise", "return"]
    ) -> dict[str, KnowgateError]:
        many: Any = getattr(self._estimator, "estimate_many", None)
        failed: dict[str, KnowgateError] = {}
        if many is not None:
            answers = many(questions, on_error=on_error)
            for question, answer in zip(questions, answers, strict=True):
                if isinstance(answer, KnowgateError):
                    failed[question] = answer
                else:
                    self._found[question] = answer
            return failed
        for question in questions:
            try:
                self.estimate(question)
            except KnowgateError as error:
                if on_error == "raise":
                    raise
                failed[question] = error
        return failed
