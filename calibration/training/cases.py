"""Retrieved sets with and without the sufficient passage, to fit and to judge a mix on."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...guard.matching import normalise_answer
from ...guard.signals.relevance.match_model import EchoMix, FeatureMix, MatchModel, set_features
from ...guard.signals.relevance.sufficiency import SufficiencyScorer
from ..calibrators import logistic_regression


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """A question, the passage that suffices, and what does not.

    Attributes:
        id: of the question.
        text: the question.
        passage: suffices to answer it.
        topic: document, site or knowledge base; other passages of a topic are the hard
            negatives of its questions.
        source: data set, for balancing; a topic with few passages borrows from it.
        answer: answer text where known: a passage that contains it is no negative.
        negatives: passages known not to suffice.
        others: further passages that suffice.
    """

    id: str
    text: str
    passage: str
    topic: str
    source: str = ""
    answer: str | None = None
    negatives: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def grouped(
    questions: Sequence[TrainingQuestion], field: Literal["topic", "source", "passage"]
) -> dict[str, list[TrainingQuestion]]:
    """The questions of each topic, source or passage."""
    found: dict[str, list[TrainingQuestion]] = defaultdict(list)
    for question in questions:
        found[getattr(question, field)].append(question)
    return dict(found)


Embed = Callable[[Sequence[str]], NDArray[np.float32]]

# Two passages this alike may both suffice.
_SAME_PASSAGE = 0.9
_TOP = 5


@dataclass(frozen=True, slots=True)
class SetCase:
    """A question with a set of passages.

    Attributes:
        question_id: of the question (of the first, where two were joined).
        question: text.
        passages: the set; the sufficient one first, the others best first by embedding.
        sufficient: whether the set suffices.
        source: for weighting.
        compound: two questions in one, which no passage answers alone.
    """

    question_id: str
    question: str
    passages: tuple[str, ...]
    sufficient: bool
    source: str = ""
    compound: bool = False


def retrieval_cases(
    questions: Sequence[TrainingQuestion], pools: Mapping[str, Sequence[str]], embed: Embed
) -> list[SetCase]:
    """Two cases per question: its passage among the nearest others, and these alone.

    Args:
        questions: each with the passage that suffices.
        pools: passages per topic, the candidates of its questions.
        embed: unit-length embeddings of texts.
    """
    found: list[SetCase] = []
    for question in questions:
        rivals = nearest_insufficient(question, pools[question.topic], embed, _TOP)
        if len(rivals) == _TOP:
            found += pair_of_cases(question, rivals)
    return found


def nearest_insufficient(
    question: TrainingQuestion, pool: Sequence[str], embed: Embed, count: int
) -> list[str]:
    """The `count` passages nearest to the question among those that do not answer it."""
    candidates = dict.fromkeys([*pool, *question.negatives])
    texts = [text for text in candidates if text not in (question.passage, *question.others)]
    if not texts:
        return []
    rows = embed([question.text, question.passage, *texts])
    near, alike = rows[2:] @ rows[0], rows[2:] @ rows[1]
    known = set(question.negatives)
    order = [
        i
        for i in np.argsort(-near, kind="stable").tolist()
        if texts[i] in known or (alike[i] <= _SAME_PASSAGE and not _has_answer(texts[i], question))
    ]
    return [texts[i] for i in order[:count]]


def _has_answer(text: str, question: TrainingQuestion) -> bool:
    """Whether the answer of a question, where it is known, stands in a text."""
    return bool(question.answer) and _padded(question.answer or "") in _padded(text)


@lru_cache(maxsize=50_000)
def _padded(text: str) -> str:
    return f" {normalise_answer(text)} "


def pair_of_cases(question: TrainingQuestion, rivals: Sequence[str]) -> list[SetCase]:
    """The rivals with the question's passage in place of the last one, and the rivals alone."""
    return [
        SetCase(question.id, question.text, tuple(texts), sufficient, question.source)
        for texts, sufficient in (([question.passage, *rivals[:-1]], True), (rivals, False))
    ]


@dataclass(frozen=True, slots=True)
class MixExample:
    """Match features of a set of passages with its label.

    Attributes:
        vectors: features per passage; for a sufficient set the passage that suffices
            (or one that does half of it) first.
        joined: features of the passages taken as one.
        sufficient: whether the set suffices.
        weight: of the example, above 0.
        whole: whether the first passage of a sufficient set suffices alone; False for
            an answer in two halves.
    """

    vectors: tuple[tuple[float, ...], ...]
    joined: tuple[float, ...]
    sufficient: bool
    weight: float = 1.0
    whole: bool = True


def fit_match_model(
    examples: Sequence[MixExample],
    *,
    features: Sequence[str],
    length_penalty: float,
    told: EchoMix,
    prior: MatchModel | None = None,
    ridge: float = 0.1,
    fitted_on: str = "",
) -> MatchModel:
    """Fit both mixes by penalised logistic regression with weights of at least 0.

    Every feature grows with sufficiency by its making, so a negative weight could only
    follow an accident of the sample, and would not carry over to another domain.

    Args:
        examples: sets with and without a sufficient passage.
        features: names of the features, in the order of the vectors.
        length_penalty: with which the features were computed.
        told: kept with the model, with which the features were computed.
        prior: weights that the penalty draws towards; 0 without.
        ridge: penalty on standardised weights per unit of example weight, at least 0.
        fitted_on: kept with the model.

    Raises:
        ValueError: only one class among the examples, or a prior of other features.
    """
    if prior is not None and prior.features != tuple(features):
        raise ValueError("the prior has other features")
    several = [one for one in examples if len(one.vectors) > 1]
    rows = [list(chain(*set_features(one.vectors, one.joined))) for one in several]
    many = _fit(rows, several, ridge, None if prior is None else prior.several)
    # A passage alone: the first of each set, which answers in one half of the cases. Half
    # an answer does not, though the set that it is part of may.
    alone = [one for one in examples if one.whole or not one.sufficient]
    rows = [list(example.vectors[0]) for example in alone]
    one = _fit(rows, alone, ridge, None if prior is None else prior.single)
    count = len(features)
    return MatchModel(
        features=tuple(features),
        length_penalty=length_penalty,
        single=FeatureMix.of(one, count),
        several=FeatureMix.of(many, count),
        told=told,
        fitted_on=fitted_on,
    )


def _fit(
    rows: Sequence[Sequence[float]],
    examples: Sequence[MixExample],
    ridge: float,
    prior: FeatureMix | None,
) -> list[float]:
    """Bias and weights on the features' own scale, rounded to 5 places."""
    x = np.asarray(rows, dtype=np.float64)
    y = np.asarray([one.sufficient for one in examples], dtype=np.float64)
    w = np.asarray([one.weight for one in examples], dtype=np.float64)
    if len(x) == 0 or y.min() == y.max():
        raise ValueError("both sufficient and insufficient sets are needed")
    towards = None if prior is None else np.array(prior.flat[1:])
    bias, weights = logistic_regression(
        x, y, penalty=2.0 * ridge * float(w.sum()), weights=w, towards=towards, rising=True
    )
    return [round(bias, 5), *(round(float(v), 5) for v in weights)]


def mix_examples(scorer: SufficiencyScorer, cases: Sequence[SetCase]) -> list[MixExample]:
    """The features of each case.

    Args:
        scorer: computes the features of its model.
        cases: sets with labels.
    """
    rows = scorer.match_features(
        [case.question for case in cases],
        [case.passages for case in cases],
    )
    return [
        MixExample(
            tuple(map(tuple, vectors)),
            tuple(joined),
            case.sufficient,
            whole=not case.compound,
        )
        for case, (vectors, joined) in zip(cases, rows, strict=True)
    ]


# Fewer passages than this make no batch: the topic then borrows from its whole source.
_SMALL_TOPIC = 8
_MOST_CANDIDATES = 400
# Neighbours are taken in a jittered order, or the same questions would always meet.
_JITTER = 0.08
# Between drawing every source alike (1) and every question alike (0).
_BALANCE = 0.4


# n questions; m ≥ n passages, of which the i-th suffices for the i-th question; of shape (n, m)
# whether a passage may suffice too, so that it is neither right nor wrong.
TopicBatch = tuple[list[str], list[str], NDArray[np.bool_]]


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
        self._topics = grouped(self._questions, "topic")
        self._sources = grouped(self._questions, "source")
        texts = (text for one in self._questions for text in (one.passage, *one.negatives))
        self._place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        self._embeddings = embed(list(self._place))
        self._sufficient: dict[str, set[str]] = defaultdict(set)
        for question in self._questions:
            self._sufficient[question.id].update((question.passage, *question.others))
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
        most = max(len(passages), self._m)
        passages = list(dict.fromkeys([*passages, *known]))[:most]
        return [one.text for one in chosen], passages, self._unusable(chosen, passages)

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
            for column, text in enumerate(passages):
                if column == row or text in question.negatives:
                    continue
                unusable[row, column] = (
                    text in self._sufficient[question.id]
                    or alike[row, column] > _SAME_PASSAGE
                    or _has_answer(text, question)
                )
        return unusable

    def _rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._embeddings[[self._place[text] for text in texts]]
