"""What lm-polygraph and uqlm make of the same generations: numbers for a test's fixture.

    python benchmarks/peer_values.py --out tests/guard/signals/confidence/peer_values.json

Needs both peers installed, neither of which knowgate needs. Greedy answers and samples come from
the microworld's language model, one further case is written by hand; the values come from the
peers' own classes, called with these generations.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from knowgate.offline_eval.testbed import default_world

SAMPLES = 10
WORDINGS: dict[str, Any] = {
    "question": "Which city is the seat of the French government?",
    "greedy": {"text": "Paris", "logprobs": [-0.4]},
    "samples": [
        {"text": "Paris", "logprobs": [-0.4]},
        {"text": "Paris.", "logprobs": [-0.9, -0.1]},
        {"text": "the city of Paris", "logprobs": [-2.5, -0.3, -0.1, -0.2]},
        {"text": "Lyon", "logprobs": [-3.1]},
        {"text": "France", "logprobs": [-2.2]},
    ],
    # Whether the row's text entails the column's, as a judge might say: not symmetric.
    "entails": [
        [True, True, True, False, True],
        [True, True, True, False, True],
        [True, True, True, False, True],
        [False, False, False, True, True],
        [False, False, False, False, True],
    ],
}


def microworld_cases(count: int) -> list[dict[str, Any]]:
    from knowgate.adapters.huggingface import HuggingFaceLM
    from knowgate.guard.matching import normalise_answer
    from knowgate.offline_eval.testbed import World
    from knowgate.offline_eval.testbed.check import microworld_model_path

    world = default_world()
    facts = Random(3).sample(world.facts, count)
    questions = [world.questions(fact, held_out=True)[0].text for fact in facts]
    prompts = [World.prompt("closed_book").format(question=question) for question in questions]
    lm = HuggingFaceLM(microworld_model_path(), device="cpu")
    cases = []
    for question, [greedy], samples in zip(
        questions,
        lm.generate(prompts),
        lm.generate(prompts, n=SAMPLES, temperature=1.0, seed=1),
        strict=True,
    ):
        texts = [normalise_answer(sample.text) for sample in samples]
        cases.append(
            {
                "question": question,
                "greedy": _plain(greedy),
                "samples": [_plain(sample) for sample in samples],
                "entails": [[first == second for second in texts] for first in texts],
            }
        )
    return cases


def _plain(generation: Any) -> dict[str, Any]:
    return {
        "text": generation.text.strip(),
        "logprobs": [round(value, 6) for value in generation.token_logprobs],
    }


def polygraph_values(case: dict[str, Any]) -> dict[str, Any]:
    from lm_polygraph.estimators import (
        MaximumSequenceProbability,
        MonteCarloNormalizedSequenceEntropy,
        MonteCarloSequenceEntropy,
        Perplexity,
        SemanticEntropy,
    )
    from lm_polygraph.stat_calculators.semantic_classes import SemanticClassesCalculator

    texts = [sample["text"] for sample in case["samples"]]
    classes = SemanticClassesCalculator()(
        {
            "semantic_matrix_classes": np.asarray([case["entails"]], dtype=int),
            "entailment_id": 1,
            "sample_texts": [texts],
        },
        [case["question"]],
        None,
    )
    stats = {
        **classes,
        "greedy_log_likelihoods": [case["greedy"]["logprobs"]],
        "sample_log_probs": [[sum(sample["logprobs"]) for sample in case["samples"]]],
        "sample_tokens": [[sample["logprobs"] for sample in case["samples"]]],
        "sample_texts": [texts],
    }
    members = classes["semantic_classes_entail"]["sample_to_class"][0]
    estimators = {
        "MaximumSequenceProbability": MaximumSequenceProbability(),
        "Perplexity": Perplexity(),
        "SemanticEntropy": SemanticEntropy(),
        "SemanticEntropyEmpirical": SemanticEntropy(class_probability_estimation="frequency"),
        "MonteCarloSequenceEntropy": MonteCarloSequenceEntropy(),
        "MonteCarloNormalizedSequenceEntropy": MonteCarloNormalizedSequenceEntropy(),
    }
    values = {name: float(estimator(stats)[0]) for name, estimator in estimators.items()}
    return {"clusters": [int(members[place]) for place in range(len(texts))], **values}


class _Judge:
    """Stands in for uqlm's NLI model: what the case says entails what."""

    def __init__(self, texts: list[str], entails: list[list[bool]]) -> None:
        self._entails = {
            (first, second): entails[i][j]
            for (i, first), (j, second) in itertools.product(enumerate(texts), enumerate(texts))
        }

    def get_nli_results_batch(self, pairs: list[tuple[str, str]]) -> list[dict[str, Any]]:
        return [
            {
                "noncontradiction_score": 1.0,
                # As uqlm reads its own model: one direction is enough.
                "entailment": self._entails[first, second] or self._entails[second, first],
                "entailment_score": 1.0,
            }
            for first, second in pairs
        ]


def uqlm_values(case: dict[str, Any]) -> dict[str, Any]:
    from uqlm.black_box.match import MatchScorer
    from uqlm.nli import entropy_utils
    from uqlm.nli.cluster import SemanticClusterer
    from uqlm.white_box.single_logprobs import SingleLogprobsScorer

    texts = [sample["text"] for sample in case["samples"]]
    _, indices, _, _ = SemanticClusterer(nli=_Judge(texts, case["entails"])).cluster_responses(
        texts
    )
    clusters = [list(map(int, index)) for index in indices]
    greedy = [[{"logprob": value} for value in case["greedy"]["logprobs"]]]
    samples = [[{"logprob": value} for value in sample["logprobs"]] for sample in case["samples"]]
    normalised = SingleLogprobsScorer().evaluate(greedy)
    whole = SingleLogprobsScorer(length_normalize=False).evaluate(greedy)
    values: dict[str, Any] = {
        "clusters": clusters,
        "min_probability": float(normalised["min_probability"][0]),
        "sequence_probability": float(whole["sequence_probability"][0]),
        "sequence_probability_length_normalised": float(normalised["sequence_probability"][0]),
        "exact_match": float(MatchScorer().evaluate([case["greedy"]["text"]], [texts])[0]),
    }
    for name, by_length in (("", True), ("_whole_sequence", False)):
        tokens, uniform = entropy_utils.compute_response_probabilities(
            samples, len(samples), by_length
        )
        for kind, probabilities in (("discrete", uniform), (f"tokenprob{name}", tokens)):
            shares = entropy_utils.compute_cluster_probabilities(probabilities, clusters)
            values[f"{kind}_semantic_entropy"] = float(
                entropy_utils.compute_semantic_entropy(shares)
            )
    return values


def p_true_rows() -> list[dict[str, Any]]:
    """What uqlm reads from the first token of a reply."""
    from uqlm.white_box.p_true import PTrueScorer

    read = PTrueScorer._extract_ptrue_from_logprobs_result
    rows: list[dict[str, Any]] = []
    for reply, logprob in (("True", -0.2), ("False", -0.2), ("false", -2.5)):
        value = read([{"token": reply, "logprob": logprob}])
        rows.append({"reply": reply, "logprob": logprob, "uqlm": float(value)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write; standard output by default")
    parser.add_argument("--questions", type=int, default=6)
    args = parser.parse_args()
    try:
        versions = {name: importlib.metadata.version(name) for name in ("lm-polygraph", "uqlm")}
    except importlib.metadata.PackageNotFoundError as error:
        sys.exit(f"needs lm-polygraph and uqlm: {error}")
    cases = [*microworld_cases(args.questions), WORDINGS]
    for case in cases:
        case["lm_polygraph"] = polygraph_values(case)
        case["uqlm"] = uqlm_values(case)
    text = json.dumps(
        {"versions": versions, "cases": cases, "p_true": p_true_rows()},
        ensure_ascii=False,
        indent=1,
    )
    if args.out:
        args.out.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
