"""The same generations give the same numbers as in lm-polygraph and uqlm.

`peer_values.json` holds generations and what the peers' own classes made of them
(`benchmarks/peer_values.py` writes it). Where the numbers differ on purpose, a test says how.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from knowgate.guard.matching import same_answer
from knowgate.guard.signals.confidence._entropy import entailed, matched, semantic_entropy
from knowgate.guard.signals.confidence._single_answers import PTrue, token_probability
from knowgate.guard.testing import ScriptedLanguageModel

FIXTURE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "peer_values.json").read_text(encoding="utf-8")
)
CASES: list[dict[str, Any]] = FIXTURE["cases"]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["greedy"]["text"]))


def texts_of(case: dict[str, Any]) -> list[str]:
    return [sample["text"] for sample in case["samples"]]


def whole(case: dict[str, Any]) -> list[float]:
    return [math.fsum(sample["logprobs"]) for sample in case["samples"]]


def per_token(case: dict[str, Any]) -> list[float]:
    return [math.fsum(s["logprobs"]) / len(s["logprobs"]) for s in case["samples"]]


@every_case
def test_token_probability_is_the_peers_sequence_mean_and_minimum(case: dict[str, Any]) -> None:
    logprobs, polygraph, uqlm = case["greedy"]["logprobs"], case["lm_polygraph"], case["uqlm"]
    sequence, mean = token_probability(logprobs), token_probability(logprobs, "mean")
    assert sequence == pytest.approx(math.exp(-polygraph["MaximumSequenceProbability"]))
    assert sequence == pytest.approx(uqlm["sequence_probability"])
    # lm-polygraph's "Perplexity" is the log of one.
    assert mean == pytest.approx(math.exp(-polygraph["Perplexity"]))
    assert mean == pytest.approx(uqlm["sequence_probability_length_normalised"])
    assert token_probability(logprobs, "minimum") == pytest.approx(uqlm["min_probability"])


class TableJudge:
    """Entailment as the fixture has it."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._texts, self._entails = texts_of(case), case["entails"]

    def entails(self, premise: str, hypothesis: str) -> bool:
        row = self._texts.index(premise)
        return bool(self._entails[row][self._texts.index(hypothesis)])


@every_case
def test_bidirectional_entailment_clusters_as_in_lm_polygraph(case: dict[str, Any]) -> None:
    clusters = entailed(TableJudge(case))
    assert clusters.cluster("", texts_of(case)) == case["lm_polygraph"]["clusters"]


@every_case
def test_discrete_entropy_is_lm_polygraphs_empirical_one(case: dict[str, Any]) -> None:
    polygraph = case["lm_polygraph"]
    found = semantic_entropy(polygraph["clusters"])
    assert found == pytest.approx(polygraph["SemanticEntropyEmpirical"], abs=1e-12)


@pytest.mark.parametrize("case", CASES[:-1], ids=lambda case: str(case["greedy"]["text"]))
def test_entropies_are_uqlms_where_its_clusters_are_ours(case: dict[str, Any]) -> None:
    uqlm, ids = case["uqlm"], matched(same_answer).cluster("", texts_of(case))
    assert [[at for at, one in enumerate(ids) if one == c] for c in range(max(ids) + 1)] == (
        uqlm["clusters"]
    )
    for found, expected in (
        (semantic_entropy(ids), "discrete_semantic_entropy"),
        (semantic_entropy(ids, per_token(case)), "tokenprob_semantic_entropy"),
        (semantic_entropy(ids, whole(case)), "tokenprob_whole_sequence_semantic_entropy"),
    ):
        assert found == pytest.approx(uqlm[expected], abs=1e-12)


def test_uqlm_puts_an_answer_into_several_clusters_and_ours_into_one() -> None:
    case = CASES[-1]
    # One direction of entailment is enough there, and "France" then joins two clusters.
    assert case["uqlm"]["clusters"] == [[0, 1, 2, 4], [3, 4]]
    assert case["lm_polygraph"]["clusters"] == [0, 0, 0, 1, 2]


@every_case
def test_the_share_of_matches_is_uqlms_but_for_normalisation(case: dict[str, Any]) -> None:
    greedy, texts = case["greedy"]["text"], texts_of(case)
    share = sum(same_answer(greedy, text) for text in texts) / len(texts)
    if case is CASES[-1]:  # "Paris" and "Paris." are two answers there
        assert (share, case["uqlm"]["exact_match"]) == (0.4, 0.2)
    else:
        assert share == pytest.approx(case["uqlm"]["exact_match"])


@pytest.mark.parametrize("row", FIXTURE["p_true"], ids=lambda row: str(row["reply"]))
def test_p_true_reads_a_reply_as_uqlm_does(row: dict[str, Any]) -> None:
    reply = row["reply"]
    lm = ScriptedLanguageModel(
        {"Proposed answer": reply}, default="Ada", logprobs={reply: row["logprob"]}
    )
    assert PTrue(lm, method="reply").estimate("who?").value == pytest.approx(row["uqlm"])
