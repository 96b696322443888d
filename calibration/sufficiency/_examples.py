"""From cases to examples: the match features of each set, by the scorer that will serve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ...guard.relevance import FEATURES, FusedScorer, MatchModel, SeveralMix, SingleMix
from ._cases import SetCase
from ._mix import MixExample

_ROUND = 16


def feature_probe(length_penalty: float, features: Sequence[str] = FEATURES) -> MatchModel:
    """A mix of all features with weights 0, to compute features with."""
    zeros = (0.0,) * len(features)
    return MatchModel(
        features=tuple(features),
        length_penalty=length_penalty,
        single=SingleMix(bias=0.0, top=zeros),
        several=SeveralMix(bias=0.0, top=zeros, margin=zeros, gain=zeros),
    )


def mix_examples(
    scorer: FusedScorer,
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
