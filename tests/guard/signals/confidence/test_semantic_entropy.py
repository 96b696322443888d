"""Semantic entropy: the formulas by hand and by scipy, the clusters, the estimator."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import entropy

from knowgate.guard import LanguageModelError
from knowgate.guard.prompts import Prompt
from knowgate.guard.signals.confidence import Sampling
from knowgate.guard.signals.confidence._entropy import (
    SemanticEntropy,
    entailed,
    matched,
    semantic_entropy,
)
from knowgate.guard.signals.conflict import SameMeaning
from knowgate.guard.testing import ScriptedLanguageModel
from tests.support.fakes import FailingLanguageModel

ASKED = Prompt.bundled("closed_book").fill(question="who?")


class Judge:
    """Entailment by a table of pairs; everything entails itself."""

    def __init__(self, pairs: set[tuple[str, str]]) -> None:
        self._pairs = pairs
        self.asked: list[tuple[str, str]] = []

    def entails(self, premise: str, hypothesis: str) -> bool:
        self.asked.append((premise, hypothesis))
        return (premise.rpartition(" ")[2], hypothesis.rpartition(" ")[2]) in self._pairs


def test_the_discrete_form_by_hand() -> None:
    shares = (0.5, 0.3, 0.2)
    expected = -sum(share * math.log(share) for share in shares)
    assert semantic_entropy([0] * 5 + [1] * 3 + [2] * 2) == pytest.approx(expected, rel=1e-12)
    assert semantic_entropy([7, 7, 7]) == 0.0


def test_both_forms_equal_scipy_on_random_clusters() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        ids = rng.integers(0, 4, size=10).tolist()
        logs = rng.normal(-20, 10, size=10)
        sums = [np.exp(logs)[np.asarray(ids) == one].sum() for one in sorted(set(ids))]
        assert semantic_entropy(ids) == pytest.approx(entropy(list(Counter(ids).values())))
        assert semantic_entropy(ids, logs.tolist()) == pytest.approx(entropy(sums))


def test_the_likelihood_form_by_hand() -> None:
    logs = [math.log(0.2), math.log(0.2), math.log(0.1)]
    assert semantic_entropy([0, 0, 1], logs) == pytest.approx(
        -(0.8 * math.log(0.8) + 0.2 * math.log(0.2))
    )


def test_likelihoods_too_small_for_floats_still_count() -> None:
    assert semantic_entropy([0, 1], [-3000.0, -3000.0]) == pytest.approx(math.log(2))
    assert semantic_entropy([0, 1], [-3000.0, -math.inf]) == 0.0


def test_entailment_must_hold_both_ways_and_an_answer_joins_one_cluster_only() -> None:
    both = {("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("d", "a")}
    assert entailed(Judge(both)).cluster("q?", ["a", "b", "c", "d", "B."]) == [0, 0, 1, 2, 0]


def test_equal_answers_are_never_judged_and_the_question_goes_along() -> None:
    judge = Judge(set())
    assert entailed(judge).cluster("Where?", ["Paris", "paris.", "Rome"]) == [0, 0, 1]
    assert judge.asked == [("Where? Paris", "Where? Rome")]


def test_a_function_of_two_answers_clusters_them_and_may_ask_for_the_question() -> None:
    same = SameMeaning()
    answers = ["Paris", "It is Paris.", "Rome"]
    assert matched(same).cluster("Where?", answers) == [0, 0, 1]
    lm = ScriptedLanguageModel({"who": answers})
    assert SemanticEntropy(lm, clusters=same).estimate("who?").value > (
        SemanticEntropy(lm).estimate("who?").value
    )


class Remembering(dict[tuple[str, str], bool]):
    """A comparison that keeps what it found, and is empty before."""

    def __call__(self, first: str, second: str) -> bool:
        return self.setdefault((first, second), True)


def test_a_comparison_that_is_empty_at_first_is_the_one_that_is_used() -> None:
    lm = ScriptedLanguageModel({"who": ["Paris", "Rome"]})
    assert SemanticEntropy(lm, clusters=Remembering()).estimate("who?").value == 1.0


def test_the_value_is_one_for_one_meaning_and_falls_with_the_entropy() -> None:
    sure = SemanticEntropy(ScriptedLanguageModel(default="Ada")).estimate("who?")
    assert (sure.value, sure.answer, sure.calls, sure.samples_drawn) == (1.0, "Ada", 11, 10)
    lm = ScriptedLanguageModel({"who": ["Ada", "Grace"]})
    [samples] = lm.generate([ASKED], n=10, temperature=1.0, seed=1)
    shares = Counter(sample.text for sample in samples).values()
    expected = 1 - entropy(list(shares)) / math.log(10)
    assert SemanticEntropy(lm).estimate("who?").value == pytest.approx(expected)


async def test_all_forms_of_asking_agree_also_with_a_judge() -> None:
    lm = ScriptedLanguageModel({"who": ["Ada", "Grace", "Lovelace"]})
    same = {("Ada", "Lovelace"), ("Lovelace", "Ada")}
    estimator = SemanticEntropy(lm, clusters=Judge(same), sampling=Sampling(n=6))
    found = estimator.estimate("who?")
    assert await estimator.aestimate("who?") == found
    assert estimator.estimate_many(["who?"]) == [found]
    assert found.value > SemanticEntropy(lm, sampling=Sampling(n=6)).estimate("who?").value


def test_likelihoods_are_per_token() -> None:
    logs = {"Ada": -0.5, "Grace": -3.0}
    lm = ScriptedLanguageModel({"who": ["Ada", "Grace"]}, logprobs=logs)
    estimator = SemanticEntropy(lm, variant="likelihood", sampling=Sampling(n=4, seed=5))
    [samples] = lm.generate([ASKED], n=4, temperature=1.0, seed=6)
    texts = [sample.text for sample in samples]
    expected = 1 - semantic_entropy(
        [sorted(logs).index(text) for text in texts], [logs[text] for text in texts]
    ) / math.log(4)
    assert estimator.estimate("who?").value == pytest.approx(expected)


def test_samples_that_arrived_before_a_failure_count_as_partial() -> None:
    found = SemanticEntropy(FailingLanguageModel(default="Ada", fails_after=7)).estimate("who?")
    assert (found.partial, found.samples_drawn, found.calls) == (True, 6, 7)
    with pytest.raises(LanguageModelError):
        SemanticEntropy(FailingLanguageModel(default="Ada", fails_after=2)).estimate("who?")


def test_sentences_that_give_one_answer_are_one_cluster_by_default() -> None:
    question = "What is the capital of Poland?"
    said = ("The capital of Poland is Warsaw.", "It is Warsaw.", "Poland's capital is Warsaw.")

    estimator = SemanticEntropy(ScriptedLanguageModel({question: said}))

    assert estimator.estimate(question).value == 1.0
