"""Which passages probably hold an answer, in these or other words: what to review first.

answer, passage ─┬─ share of the answer's words that stand in the passage ─┐
                 ├─ how near its words are met by words of the passage ────┴─ mean ─┐
                 └─ share of the answer's numbers that stand in the passage ────────┴─ product
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....guard.engine import EncodedText, TokenEncoder
from ....guard.signals.relevance import (
    SufficiencyScorer,
    best_cosines,
    token_weights,
    word_piece_idf,
)
from ...data.diversity import numbers_of, words_of
from ...run import OnStep

PROBABLE = 0.6
"""Score from which on a passage is said to answer probably."""

_BATCH = 32
# They say which answer it is only together with the question.
_BARE = frozenset(("yes", "no", "yeah", "not"))


@dataclass(frozen=True, slots=True)
class Sought:
    """An answer that is looked for in passages.

    Attributes:
        question: whose words count only where the answer has no others.
        answer: may be empty; then it is found nowhere.
        passages: ids of those to look in.
    """

    question: str
    answer: str
    passages: tuple[str, ...]


def answer_scores(
    sought: Sequence[Sought],
    texts: Mapping[str, str],
    *,
    encoder: TokenEncoder | None = None,
    on_scored: OnStep | None = None,
) -> list[tuple[float, ...]]:
    """Score how probably each passage holds each answer.

    The score is the mean of two shares, times the share of the answer's numbers that stand in the
    passage (1 without numbers): of the answer's words those that stand there, each weighted by how
    few of the passages have it; and the mean cosine of its word pieces to their nearest ones there,
    weighted by inverse document frequency. Words of the question count only where the answer has
    no others. It orders what people read, and decides nothing.

    Args:
        sought: the answers.
        texts: of the passages; one that is missing here scores 0.
        encoder: of the embedded scorer where None.
        on_scored: called with the number of passages that are done, and of all.

    Returns:
        Per answer one score per passage, in [0, 1].
    """
    used = sorted({name for one in sought for name in one.passages if name in texts})
    words = _Words.of({name: texts[name] for name in used})
    nearness = _Nearness(sought, encoder)
    found = [[0.0] * len(one.passages) for one in sought]
    wanted: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, one in enumerate(sought):
        for place, name in enumerate(one.passages):
            wanted[name].append((at, place))
    for start in range(0, len(used), _BATCH):
        names = used[start : start + _BATCH]
        for name, windows in zip(names, nearness.windows([texts[n] for n in names]), strict=True):
            for at, place in wanted[name]:
                one = sought[at]
                near = nearness.of(at, windows)
                found[at][place] = words.numbers(one, name) * (words.share(one, name) + near) / 2
        if on_scored is not None:
            on_scored(start + len(names), len(used))
    return [tuple(scores) for scores in found]


def _telling(sought: Sought) -> frozenset[str]:
    """Words that tell the answer from others to the same question; all of them if none does."""
    words = frozenset(words_of(sought.answer))
    return (words - frozenset(words_of(sought.question)) - _BARE) or (words - _BARE)


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of passages, and how much each says."""

    present: Mapping[str, frozenset[str]]
    frequency: Mapping[str, int]

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> _Words:
        present = {name: frozenset(words_of(text)) for name, text in texts.items()}
        return cls(present, Counter(word for words in present.values() for word in words))

    def share(self, sought: Sought, name: str) -> float:
        """Weighted share of the telling words that stand in a passage."""
        weights = {word: self._weight(word) for word in _telling(sought)}
        total = math.fsum(weights.values())
        there = math.fsum(weight for word, weight in weights.items() if word in self.present[name])
        return there / total if total > 0.0 else 0.0

    def numbers(self, sought: Sought, name: str) -> float:
        """Share of the answer's numbers that stand in a passage."""
        numbers = numbers_of(sought.answer) - numbers_of(sought.question)
        return len(numbers & self.present[name]) / len(numbers) if numbers else 1.0

    def _weight(self, word: str) -> float:
        return math.log((len(self.present) + 1) / max(1, self.frequency.get(word, 0)))


class _Nearness:
    """How near the word pieces of answers are met by passages."""

    def __init__(self, sought: Sequence[Sought], encoder: TokenEncoder | None) -> None:
        self._encoder = SufficiencyScorer().encoder if encoder is None else encoder
        idf, unknown = word_piece_idf(self._encoder), self._encoder.unknown_id
        texts = [one.answer for one in sought]
        self._answers: list[tuple[EncodedText, Any] | None] = []
        for one, encoded in zip(sought, self._encoder.encode_first(texts), strict=True):
            if not _telling(one):
                self._answers.append(None)
                continue
            weights = token_weights(encoded, idf, unknown)
            asked = np.isin(encoded.ids[1:-1], self._encoder.pieces(one.question))
            telling = np.where(asked, 0.0, weights)
            self._answers.append((encoded, telling if telling.sum() > 0.0 else weights))

    def windows(self, texts: Sequence[str]) -> list[list[EncodedText]]:
        """The windows of each text."""
        return self._encoder.encode(texts)

    def of(self, at: int, windows: Sequence[EncodedText]) -> float:
        """Weighted mean of the best cosines of an answer, in [0, 1]."""
        found = self._answers[at]
        if found is None or not len(found[1]) or not found[1].sum() > 0.0:
            return 0.0
        encoded, weights = found
        best = np.clip(best_cosines(encoded, windows), 0.0, 1.0)
        return float((best * weights).sum() / weights.sum())
