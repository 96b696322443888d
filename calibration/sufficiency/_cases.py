"""Retrieved sets with and without the sufficient passage, to fit and to judge a mix on."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...guard import normalise_answer
from ._questions import TrainingQuestion

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
