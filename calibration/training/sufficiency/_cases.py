"""Retrieved sets with and without the sufficient passage, to fit and to judge a mix on."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....guard.matching import normalise_answer
from ....guard.signals.relevance import SufficiencyScorer
from ._mix import MixExample


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


def by_topic(questions: Sequence[TrainingQuestion]) -> dict[str, list[TrainingQuestion]]:
    """The questions of each topic."""
    found: dict[str, list[TrainingQuestion]] = defaultdict(list)
    for question in questions:
        found[question.topic].append(question)
    return dict(found)


Embed = Callable[[Sequence[str]], NDArray[np.float32]]

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
    questions: Sequence[TrainingQuestion],
    pools: Mapping[str, Sequence[str]],
    embed: Embed,
    *,
    seed: int = 0,
    sizes: Sequence[int] = (_TOP,),
    compound_share: float = 0.0,
) -> list[SetCase]:
    """Two cases per question: its passage among the nearest others, and these alone.

    Args:
        questions: each with the passage that suffices.
        pools: passages per topic, the candidates of its questions.
        embed: unit-length embeddings of texts.
        seed: of sizes and compounds.
        sizes: how many passages a set has, drawn for each question.
        compound_share: share of questions, in [0, 1], that give two more cases: joined
            with another question of the topic, once with both passages and once with
            one of the two, which is half an answer.
    """
    rng = random.Random(seed)
    found: list[SetCase] = []
    for question in questions:
        rivals = nearest_insufficient(question, pools[question.topic], embed, _TOP)
        size = rng.choice(list(sizes))
        if len(rivals) < size:
            continue
        found += _pair(question, question.passage, rivals, size)
        # A passage that answers both would make half an answer a whole one.
        others = [
            o
            for o in questions
            if o.topic == question.topic
            and o.id != question.id
            and not {o.passage, *o.others} & {question.passage, *question.others}
        ]
        if others and rng.random() < compound_share:
            found += _compound(question, rng.choice(others), rivals)
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
    answer = f" {normalise_answer(question.answer)} " if question.answer else None
    known = set(question.negatives)
    order = [
        i
        for i in np.argsort(-near, kind="stable").tolist()
        if texts[i] in known
        or (
            alike[i] <= _SAME_PASSAGE
            and not (answer and answer in f" {normalise_answer(texts[i])} ")
        )
    ]
    return [texts[i] for i in order[:count]]


def _pair(
    question: TrainingQuestion, passage: str, rivals: Sequence[str], size: int
) -> list[SetCase]:
    return [
        SetCase(question.id, question.text, tuple(texts), sufficient, question.source)
        for texts, sufficient in (([passage, *rivals[: size - 1]], True), (rivals[:size], False))
    ]


def _compound(
    question: TrainingQuestion, other: TrainingQuestion, rivals: Sequence[str]
) -> list[SetCase]:
    text = f"{question.text} {other.text}"
    kept = [rival for rival in rivals if rival not in (other.passage, *other.others)]
    both = (question.passage, other.passage, *kept[:3])
    half = (question.passage, *kept[:4])
    return [
        SetCase(question.id, text, both, True, question.source, True),
        SetCase(question.id, text, half, False, question.source, True),
    ]


_ROUND = 16


def mix_examples(
    scorer: SufficiencyScorer,
    cases: Sequence[SetCase],
    *,
    balance: float = 0.5,
    source_weights: dict[str, float] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[MixExample]:
    """The features of each case, with weights that even out the sources.

    Args:
        scorer: computes the features of its model.
        cases: sets with labels.
        balance: 0 weighs every case alike, 1 every source alike.
        source_weights: factor per source.
        on_progress: called with cases done and in all.
    """
    counts = Counter(case.source for case in cases)
    weights = source_weights or {}
    found: list[MixExample] = []
    for start in range(0, len(cases), _ROUND):
        part = cases[start : start + _ROUND]
        rows = scorer.match_features(
            [case.question for case in part], [case.passages for case in part]
        )
        for case, (vectors, joined) in zip(part, rows, strict=True):
            weight = weights.get(case.source, 1.0) * (len(cases) / counts[case.source]) ** balance
            found.append(
                MixExample(
                    tuple(tuple(vector) for vector in vectors),
                    tuple(joined),
                    case.sufficient,
                    weight,
                    not case.compound,
                )
            )
        if on_progress is not None:
            on_progress(len(found), len(cases))
    return found
