"""Resample questions to see how far chance alone could have moved a number."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ._arrays import Floats
from ._statistics import Interval

_CONFIDENCE = 0.95
_CHUNK = 100


class QuestionResamples:
    """Bootstrap draws over questions, the same for every method that is measured with them.

    A question is drawn with all of its cases: they share its wording, so they are no
    independent evidence. That all methods share the draws makes differences between
    them paired.

    Args:
        questions: one key each; their order decides the draws.
        resamples: number of draws, at least 1.
        seed: random seed.
    """

    def __init__(self, questions: Sequence[Hashable], *, resamples: int, seed: int) -> None:
        if resamples < 1:
            raise ValueError(f"there must be a resample, not {resamples}")
        self._position = {key: index for index, key in enumerate(questions)}
        self._weights = _weights(len(self._position), resamples, seed)

    @property
    def count(self) -> int:
        """Number of questions."""
        return len(self._position)

    def position(self, question: Hashable) -> int:
        """Return the row of the question in the counts that `totals` takes."""
        return self._position[question]

    def totals(self, counts: Floats) -> Floats:
        """Sum the columns of each draw.

        Args:
            counts: shape (questions, columns).

        Returns:
            Shape (resamples, columns).
        """
        return np.concatenate([part @ counts for part in self.parts()])

    def parts(self) -> Iterator[Floats]:
        """Yield how often each question is drawn, a hundred draws at a time.

        Each part has the shape (draws, questions).
        """
        for start in range(0, len(self._weights), _CHUNK):
            yield self._weights[start : start + _CHUNK].astype(np.float64)

    @staticmethod
    def share_interval(value: float, draws: Floats, n: int) -> Interval:
        """Give a share in [0, 1] the 95 % percentile interval of its draws.

        Where all draws agree, resampling says nothing about chance and a width of zero would
        claim certainty: the Wilson interval of the value's count among n questions stands in.

        Args:
            value: the estimate; NaN where nothing was observed.
            draws: of the same number; NaN where a draw held no case.
            n: questions it rests on.
        """
        if n == 0 or math.isnan(value):
            return Interval()
        low, high = _ends(value, draws)
        if low == high:
            # Exactly full counts must not slip past the next whole number by rounding.
            near = round(value * n, 9)
            lower = Interval.wilson(math.floor(near), n, _CONFIDENCE).low
            return Interval(value, lower, Interval.wilson(math.ceil(near), n, _CONFIDENCE).high, n)
        return Interval(value, low, high, n)

    @staticmethod
    def difference_interval(
        value: float, draws: Floats, n: int, *, confidence: float = _CONFIDENCE
    ) -> Interval:
        """Give a difference of two shares, in [-1, 1], its percentile interval.

        Where all draws agree, the interval is as wide as that of a share of 0 among n.
        """
        if n == 0 or math.isnan(value):
            return Interval()
        low, high = _ends(value, draws, confidence)
        if low == high:
            width = Interval.wilson(0, n, confidence).high
            assert width is not None  # n is positive here
            return Interval(value, max(-1.0, value - width), min(1.0, value + width), n)
        return Interval(value, low, high, n)


# A report has many intervals over the same questions.
@lru_cache(maxsize=4)
def _weights(count: int, resamples: int, seed: int) -> NDArray[np.uint16]:
    """How often each draw holds each question; shape (resamples, count)."""
    rng = np.random.default_rng(seed)
    # Small integers: thousands of questions times a thousand draws stay in memory.
    weights = np.zeros((resamples, count), dtype=np.uint16)
    for start in range(0, resamples if count else 0, _CHUNK):
        draws = min(_CHUNK, resamples - start)
        picked = rng.integers(0, count, size=(draws, count))
        picked += np.arange(draws)[:, None] * count
        counted = np.bincount(picked.ravel(), minlength=draws * count)
        weights[start : start + draws] = counted.reshape(draws, count)
    weights.setflags(write=False)
    return weights


def _ends(value: float, draws: Floats, confidence: float = _CONFIDENCE) -> tuple[float, float]:
    seen = draws[~np.isnan(draws)]
    if not len(seen):
        return value, value
    tail = (1 - confidence) / 2
    low, high = np.quantile(seen, [tail, 1 - tail])
    return min(float(low), value), max(float(high), value)
