"""Fit the bundled mix on the development part of the sufficiency pack.

    python -m tools.sufficiency.fit_mix --pack DIR --folder DIR

`--folder` holds the adapter; `sufficiency.json` is written into it, which
`tools.sufficiency.fit_told` completes. Prints, per source left out of the fit, the AUROC of
telling sets with the sufficient passage from sets without it.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from knowgate.calibration import SelectiveCurve
from knowgate.calibration.training.cases import (
    MixExample,
    SetCase,
    TrainingQuestion,
    fit_match_model,
    mix_examples,
)
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.signals.relevance.match_model import (
    FEATURES,
    TOLD_FEATURES,
    EchoMix,
    FeatureMix,
    MatchModel,
)
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer
from tools.sufficiency.drawing import drawn_cases, weighed
from tools.sufficiency.pairs import read_pairs

LENGTH_PENALTY = 0.06
# Text that asks counts in full; `fit_told` fits it afterwards.
NEUTRAL = EchoMix(bias=50.0, weights=(0.0,) * len(TOLD_FEATURES))
# The best retrieved chunk alone has log-odds lower by about this than five chunks for the same
# question, answered or not (`benchmarks/default_threshold.py alone`).
ALONE = 0.12
_PER_SOURCE = 160
_SMALL_TOPIC = 10
_MOST_CANDIDATES = 400
_SEED = 3
# The knowledge bases that the guard is for: answers, asked for in whole sentences.
FIT_WEIGHTS = {"covid_faq": 4.0, "medquad": 3.0}


def main() -> None:
    parser = argparse.ArgumentParser(description="Fit the bundled mix.")
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    questions = read_pairs([arguments.pack / "dev.jsonl.xz"])
    cases = development_cases(questions)
    probe = feature_probe(LENGTH_PENALTY)
    scorer = SufficiencyScorer(arguments.folder, model=probe)
    examples = weighed(mix_examples(scorer, cases), cases, source_weights=FIT_WEIGHTS)
    _print_left_out(cases, examples, probe.features)
    note = f"{len(cases)} sets from {len({c.source for c in cases})} sources of the pack"
    mix = fit_match_model(
        examples,
        features=probe.features,
        length_penalty=LENGTH_PENALTY,
        told=NEUTRAL,
        fitted_on=f"{note}; the bias of one passage on retrieved chunks",
    )
    alone = mix.single.model_copy(update={"bias": round(mix.single.bias + ALONE, 5)})
    mix = mix.model_copy(update={"single": alone})
    mix.save(arguments.folder / "sufficiency.json")


def development_cases(
    questions: Sequence[TrainingQuestion], per_source: int = _PER_SOURCE
) -> list[SetCase]:
    """Sets of 2 to 5 passages, of so many questions a source at most."""
    rng = random.Random(_SEED)
    sources: dict[str, list[TrainingQuestion]] = {}
    for question in questions:
        sources.setdefault(question.source, []).append(question)
    embedder = BiEncoderScorer(cache_bytes=200 * 2**20)
    cases: list[SetCase] = []
    for source in sorted(sources):
        chosen = sources[source]
        rng.shuffle(chosen)
        whole = list(dict.fromkeys(t for q in chosen for t in (q.passage, *q.negatives)))
        pools: dict[str, list[str]] = {}
        by_topic = defaultdict(list)
        for question in chosen:
            by_topic[question.topic].append(question)
        for topic, members in by_topic.items():
            pool = list(dict.fromkeys(t for q in members for t in (q.passage, *q.negatives)))
            pool = pool if len(pool) >= _SMALL_TOPIC else whole
            pools[topic] = rng.sample(pool, min(_MOST_CANDIDATES, len(pool)))
        once = list({q.id: q for q in chosen}.values())[:per_source]
        cases += drawn_cases(
            once, pools, embedder.embed, seed=_SEED, sizes=(2, 3, 4, 5, 5, 5), compound_share=0.4
        )
        print(source, len(cases), flush=True)
    return cases


def feature_probe(length_penalty: float, features: Sequence[str] = FEATURES) -> MatchModel:
    """A mix of all features with weights 0, to compute features with."""
    zeros = (0.0,) * len(features)
    return MatchModel(
        features=tuple(features),
        length_penalty=length_penalty,
        single=FeatureMix(bias=0.0, top=zeros),
        several=FeatureMix(bias=0.0, top=zeros, margin=zeros, gain=zeros),
        told=NEUTRAL,
    )


def _print_left_out(
    cases: Sequence[SetCase], examples: Sequence[MixExample], features: Sequence[str]
) -> None:
    for source in sorted({case.source for case in cases}):
        rest = [e for c, e in zip(cases, examples, strict=True) if c.source != source]
        fitted = fit_match_model(
            rest, features=features, length_penalty=LENGTH_PENALTY, told=NEUTRAL
        )
        scores: dict[bool, list[float]] = {True: [], False: []}
        for case, example in zip(cases, examples, strict=True):
            if case.source == source and not case.compound:
                scores[case.sufficient].append(joint(fitted, example))
        print(f"{source}: {SelectiveCurve.auroc(scores[True], scores[False]):.3f}", flush=True)


def joint(model: MatchModel, example: MixExample) -> float:
    """The joint score of an example's set."""
    return model.joint_score(example.vectors, example.joined)


if __name__ == "__main__":
    main()
