"""Batches of questions that lie close together, so that each is the others' hard negative.

A batch is a matrix: every question against the passage of every other and against the
passages known not to suffice. One encoded passage so serves a dozen questions, and the
model is asked what it will be asked in use: which of the passages of one knowledge base
answers this question, if any does.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....guard.matching import normalise_answer
from ._cases import TrainingQuestion, by_topic

Embed = Callable[[Sequence[str]], NDArray[np.float32]]

# Fewer passages than this make no batch: the topic then borrows from its whole source.
_SMALL_TOPIC = 8
_MOST_CANDIDATES = 400
# Two passages this alike may both suffice.
_SAME_PASSAGE = 0.9
# Neighbours are taken in a jittered order, or the same questions would always meet.
_JITTER = 0.08
# Between drawing every source alike (1) and every question alike (0).
_BALANCE = 0.4


@dataclass(frozen=True, slots=True, eq=False)
class TopicBatch:
    """Questions against passages.

    Attributes:
        questions: n texts.
        passages: m texts, m ≥ n; passage i suffices for question i.
        unusable: bool of shape (n, m): may suffice too, so neither right nor wrong.
    """

    questions: tuple[str, ...]
    passages: tuple[str, ...]
    unusable: NDArray[np.bool_]


class TopicBatches:
    """Draws batches for ever, the same ones for the same seed.

    Args:
        questions: to draw from.
        embed: unit-length embeddings of texts, to find neighbours with; called once for
            all passages.
        seed: of the draw.
        batch_questions: questions per batch, at most.
        batch_passages: passages per batch, at most.
        source_weights: how much more often than others a source is drawn.
    """

    def __init__(
        self,
        questions: Sequence[TrainingQuestion],
        embed: Embed,
        *,
        seed: int,
        batch_questions: int = 12,
        batch_passages: int = 24,
        source_weights: dict[str, float] | None = None,
    ) -> None:
        self._rng = random.Random(seed)
        self._n, self._m = batch_questions, batch_passages
        self._questions = list(questions)
        self._topics = by_topic(self._questions)
        self._sources: dict[str, list[TrainingQuestion]] = {}
        for question in self._questions:
            self._sources.setdefault(question.source, []).append(question)
        texts = list(
            dict.fromkeys(text for one in self._questions for text in (one.passage, *one.negatives))
        )
        self._place = {text: i for i, text in enumerate(texts)}
        self._embeddings = embed(texts)
        self._normalised: dict[str, str] = {}
        self._sufficient: dict[str, set[str]] = {}
        for question in self._questions:
            known = self._sufficient.setdefault(question.id, set())
            known.update((question.passage, *question.others))
        counts = Counter(question.source for question in self._questions)
        weights = source_weights or {}
        self._weights = [
            weights.get(one.source, 1.0) * counts[one.source] ** -_BALANCE
            for one in self._questions
        ]

    def draw(self) -> TopicBatch:
        """The next batch."""
        [seed] = self._rng.choices(self._questions, self._weights)
        chosen = self._neighbours(seed)
        passages = [question.passage for question in chosen]
        known = [text for one in chosen for text in one.negatives if text not in passages]
        self._rng.shuffle(known)
        for text in known:
            if len(passages) >= self._m:
                break
            if text not in passages:
                passages.append(text)
        return TopicBatch(
            tuple(question.text for question in chosen),
            tuple(passages),
            self._unusable(chosen, passages),
        )

    def _neighbours(self, seed: TrainingQuestion) -> list[TrainingQuestion]:
        pool = self._topics[seed.topic]
        if len({question.passage for question in pool}) < _SMALL_TOPIC:
            pool = self._sources[seed.source]
        if len(pool) > _MOST_CANDIDATES:
            pool = self._rng.sample(pool, _MOST_CANDIDATES)
        closeness = self._rows([one.passage for one in pool]) @ self._rows([seed.passage])[0]
        jittered = [float(c) + self._rng.gauss(0.0, _JITTER) for c in closeness]
        chosen, ids, passages = [seed], {seed.id}, {seed.passage}
        for place in sorted(range(len(pool)), key=lambda i: -jittered[i]):
            if len(chosen) == self._n:
                break
            one = pool[place]
            if one.id not in ids and one.passage not in passages:
                chosen.append(one)
                ids.add(one.id)
                passages.add(one.passage)
        return chosen

    def _unusable(self, chosen: list[TrainingQuestion], passages: list[str]) -> NDArray[np.bool_]:
        alike = self._rows([one.passage for one in chosen]) @ self._rows(passages).T
        unusable = np.zeros((len(chosen), len(passages)), dtype=bool)
        for row, question in enumerate(chosen):
            answer = f" {normalise_answer(question.answer)} " if question.answer else None
            for column, text in enumerate(passages):
                if column == row or text in question.negatives:
                    continue
                unusable[row, column] = (
                    text in self._sufficient[question.id]
                    or alike[row, column] > _SAME_PASSAGE
                    or (answer is not None and answer in self._normal(text))
                )
        return unusable

    def _rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embeddings[[self._place[text] for text in texts]]

    def _normal(self, text: str) -> str:
        if text not in self._normalised:
            self._normalised[text] = f" {normalise_answer(text)} "
        return self._normalised[text]
