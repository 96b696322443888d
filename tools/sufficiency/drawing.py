"""Sets of several sizes, also for two questions in one; weights that even out the sources."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from knowgate.calibration.training.cases import (
    Embed,
    MixExample,
    SetCase,
    TrainingQuestion,
    nearest_insufficient,
    pair_of_cases,
)

_TOP = 5


def drawn_cases(
    questions: Sequence[TrainingQuestion],
    pools: Mapping[str, Sequence[str]],
    embed: Embed,
    *,
    seed: int,
    sizes: Sequence[int],
    compound_share: float,
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
        found += pair_of_cases(question, rivals[:size])
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


def weighed(
    examples: Sequence[MixExample],
    cases: Sequence[SetCase],
    *,
    balance: float = 0.5,
    source_weights: Mapping[str, float] | None = None,
) -> list[MixExample]:
    """The examples with weights that even out the sources.

    Args:
        examples: one for each case.
        cases: name their sources.
        balance: 0 weighs every case alike, 1 every source alike.
        source_weights: factor per source.
    """
    counts = Counter(case.source for case in cases)
    factors = source_weights or {}
    return [
        replace(
            example,
            weight=factors.get(case.source, 1.0) * (len(cases) / counts[case.source]) ** balance,
        )
        for example, case in zip(examples, cases, strict=True)
    ]
