"""Scorers that are made of others: what one of these gives, and what all of them say together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..._measuring import as_score
from ...contracts import RelevanceScorer, SetScore
from ...deadlines import call_on_thread
from ...errors import SignalValueError
from ...fingerprint import JOINT, default_aggregator


class MadeOfScorers(ABC):
    """What a cascade and a mix have in common: the first scorer's scores, and a value of all."""

    @property
    @abstractmethod
    def scorers(self) -> tuple[RelevanceScorer, ...]:
        """All that are in it."""

    @property
    def calls(self) -> int | None:
        """How often its scorers asked a language model so far; None where none counts that."""
        counts = [getattr(scorer, "calls", None) for scorer in self.scorers]
        known = [count for count in counts if isinstance(count, int)]
        return sum(known) if known else None

    def tuned_on(self, question: str) -> bool:
        """Whether one of its scorers was tuned on this question, and so looks better on it."""
        asked = [getattr(scorer, "tuned_on", None) for scorer in self.scorers]
        return any(tuned_on(question) for tuned_on in asked if tuned_on is not None)

    @property
    def reads_metadata(self) -> bool:
        """Whether one of its scorers reads the metadata of passages."""
        return any(getattr(scorer, "reads_metadata", False) for scorer in self.scorers)

    @abstractmethod
    def score_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """`score_set` for each question with its passages, equal to it."""

    @abstractmethod
    async def ascore_sets(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """As `score_sets`, without blocking the event loop."""

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """The first scorer's scores of shape (len(passages),); the others are not asked."""
        return self.scorers[0].score(question, passages)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """The first scorer's scores of shape (len(pairs),)."""
        return self.scorers[0].score_pairs(pairs)

    async def ascore(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """As `score`, without blocking the event loop."""
        return await call_on_thread(lambda: self.score(question, passages))

    async def ascore_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """As `score_pairs`, without blocking the event loop."""
        return await call_on_thread(lambda: self.score_pairs(pairs))

    def score_set(self, question: str, passages: Sequence[str]) -> SetScore:
        """The first scorer's scores of at least one passage, and the value of all."""
        return self.score_sets([question], [passages])[0]

    async def ascore_set(self, question: str, passages: Sequence[str]) -> SetScore:
        """As `score_set`, without blocking the event loop."""
        return (await self.ascore_sets([question], [passages]))[0]


@dataclass(frozen=True, slots=True)
class Stage:
    """A scorer, and whether it judges the passages of a question together."""

    scorer: RelevanceScorer
    joint: bool

    @classmethod
    def of(cls, scorer: RelevanceScorer) -> Stage:
        sets = callable(getattr(scorer, "score_sets", None))
        return cls(scorer, sets and default_aggregator(scorer.fingerprint.kind) == JOINT)

    @property
    def awaited(self) -> bool:
        """Whether the scorer can be awaited."""
        return callable(getattr(self.scorer, "ascore_sets" if self.joint else "ascore_pairs", None))

    def measure(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """Scores and value of each question; the best passage counts where none is joint."""
        scorer: Any = self.scorer
        if self.joint:
            return list(scorer.score_sets(questions, passages))
        return _of_pairs(scorer.score_pairs(_pairs(questions, passages)), passages)

    async def ameasure(
        self, questions: Sequence[str], passages: Sequence[Sequence[str]]
    ) -> list[SetScore]:
        """As `measure`, without blocking the event loop."""
        if not self.awaited:
            return await call_on_thread(lambda: self.measure(questions, passages))
        scorer: Any = self.scorer
        if self.joint:
            return list(await scorer.ascore_sets(questions, passages))
        return _of_pairs(await scorer.ascore_pairs(_pairs(questions, passages)), passages)


def _pairs(questions: Sequence[str], passages: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    return [
        (question, text)
        for question, texts in zip(questions, passages, strict=True)
        for text in texts
    ]


def numbers(scores: Iterable[object]) -> list[float]:
    try:
        return [as_score(score) for score in scores]
    except (TypeError, ValueError, OverflowError):
        raise SignalValueError("relevance", "the scorer did not return numbers") from None


def _of_pairs(scores: Any, passages: Sequence[Sequence[str]]) -> list[SetScore]:
    given = numbers(cast("Sequence[float]", scores))
    if len(given) != sum(map(len, passages)):
        raise SignalValueError("relevance", "the number of scores is not that of the passages")
    following = iter(given)
    each = [tuple(next(following) for _ in texts) for texts in passages]
    return [SetScore(scores, max(scores)) for scores in each]
