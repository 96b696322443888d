"""Sampled consistency stops early and decides as all samples would have."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import (
    Confidence,
    ConfidenceEstimator,
    Generation,
    InputError,
    LanguageModel,
    LanguageModelError,
)
from knowgate.guard.confidence import CurtailedSampling, SampledConsistency
from knowgate.guard.conflict import AnswerConflict
from knowgate.guard.testing import ScriptedLanguageModel
from tests.support.guards import guard_with, policy_with

ANSWER = "Ada"


class Pattern:
    """A language model whose samples match the greedy answer in a given order."""

    fingerprint = "pattern"

    def __init__(self, matches: Sequence[bool], greedy: str = ANSWER) -> None:
        self._left = list(matches)
        self._greedy = greedy
        self.waves: list[int] = []
        self.seeds: list[int | None] = []

    def generate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        assert len(prompts) == 1
        if temperature == 0.0:
            assert n == 1
            return [[Generation(self._greedy)]]
        self.waves.append(n)
        self.seeds.append(seed)
        taken, self._left = self._left[:n], self._left[n:]
        return [[Generation(ANSWER if match else "Grace") for match in taken]]

    async def agenerate(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float = 0.0,
        seed: int | None = None,
    ) -> list[list[Generation]]:
        await asyncio.sleep(0)
        return self.generate(prompts, n=n, temperature=temperature, seed=seed)


def samples_one_by_one(pattern: Sequence[bool], needed: int, misses_needed: int) -> int:
    """After how many samples the decision is fixed, when they are looked at singly."""
    matches = misses = 0
    for drawn, match in enumerate(pattern, start=1):
        matches, misses = matches + match, misses + (not match)
        if matches >= needed or misses >= misses_needed:
            return drawn
    raise AssertionError


def test_every_pattern_of_ten_outcomes_is_decided_as_by_all_ten() -> None:
    for pattern in itertools.product((True, False), repeat=10):
        model = Pattern(pattern)
        found = SampledConsistency(model).estimate("q")
        known = sum(pattern) >= 7
        assert (found.value >= 0.7) is known, pattern
        assert sum(model.waves) == found.samples_drawn == samples_one_by_one(pattern, 7, 4)
        assert found.samples_drawn + found.samples_saved == 10
        assert found.answer == ANSWER


async def test_the_async_form_agrees_on_every_pattern() -> None:
    for pattern in itertools.product((True, False), repeat=10):
        first, second = Pattern(pattern), Pattern(pattern)
        assert SampledConsistency(first).estimate("q") == await SampledConsistency(
            second
        ).aestimate("q")
        assert first.waves == second.waves
        assert first.seeds == second.seeds


@given(st.integers(1, 12), st.data())
@settings(max_examples=150, deadline=None)
def test_any_n_and_threshold_stop_without_waste_or_another_decision(
    n: int, data: st.DataObject
) -> None:
    threshold = data.draw(st.sampled_from([k / n for k in range(1, n + 1)]) | st.floats(0.01, 1))
    pattern = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    model = Pattern(pattern)
    rule = CurtailedSampling(n, threshold)
    found = SampledConsistency(model, n=n, threshold=threshold).estimate("q")
    known = sum(pattern) >= rule.matches_needed
    assert (found.value >= threshold - 1e-9) is known
    assert sum(model.waves) == samples_one_by_one(pattern, rule.matches_needed, rule.misses_needed)


def test_waves_do_not_repeat_each_others_seeds() -> None:
    model = Pattern([True, False] * 5)
    SampledConsistency(model, seed=5).estimate("q")
    drawn_before = [sum(model.waves[:i]) for i in range(len(model.waves))]
    assert model.seeds == [5 + 1 + drawn for drawn in drawn_before]


def test_without_a_seed_none_is_passed_on() -> None:
    model = Pattern([True] * 10)
    SampledConsistency(model, seed=None).estimate("q")
    assert set(model.seeds) == {None}


@pytest.mark.parametrize("greedy", ["I don't know.", "", "  \n", "unknown", "不知道"])
def test_a_refusal_is_no_confidence_and_costs_no_sample(greedy: str) -> None:
    model = Pattern([True] * 10, greedy=greedy)
    found = SampledConsistency(model).estimate("q")
    assert found == Confidence(0.0, greedy.strip(), samples_drawn=0, samples_saved=10)
    assert model.waves == []


def test_an_answer_of_punctuation_alone_never_counts_as_repeated() -> None:
    model = ScriptedLanguageModel(default="...")
    assert SampledConsistency(model).estimate("q").value == 0.0


async def test_an_error_of_the_language_model_comes_out_typed() -> None:
    estimator = SampledConsistency(ScriptedLanguageModel(error=LanguageModelError("down")))
    with pytest.raises(LanguageModelError, match="down"):
        estimator.estimate("q")
    with pytest.raises(LanguageModelError, match="down"):
        await estimator.aestimate("q")


async def test_too_few_generations_are_an_error_not_a_smaller_sample() -> None:
    with pytest.raises(LanguageModelError, match="2 generations where 4"):
        SampledConsistency(Pattern([True] * 2)).estimate("q")
    with pytest.raises(LanguageModelError, match="2 generations where 4"):
        await SampledConsistency(Pattern([True] * 2)).aestimate("q")


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_cannot_sample_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature"):
        SampledConsistency(Pattern([]), temperature=temperature)


@pytest.mark.parametrize(
    ("n", "threshold"), [(0, 0.7), (-1, 0.7), (10, 0.0), (10, 1.1), (10, float("nan"))]
)
def test_a_rule_that_makes_no_sense_is_refused(n: int, threshold: float) -> None:
    with pytest.raises(ValueError, match=r"n must|threshold must"):
        CurtailedSampling(n, threshold)


@pytest.mark.parametrize(
    ("n", "threshold", "needed"),
    [(10, 0.7, 7), (10, 0.71, 8), (10, 1.0, 10), (10, 0.001, 1), (3, 1 / 3, 1), (100, 0.07, 7)],
)
def test_the_matches_needed_are_exact(n: int, threshold: float, needed: int) -> None:
    assert CurtailedSampling(n, threshold).matches_needed == needed


def test_the_parts_fulfil_their_contracts_and_the_fingerprint_names_the_settings() -> None:
    estimator = SampledConsistency(Pattern([]), n=5, threshold=0.6, temperature=0.5)
    assert isinstance(estimator, ConfidenceEstimator)
    assert isinstance(Pattern([]), LanguageModel)
    names = {"language_model", "n", "threshold", "temperature", "prompt_sha256"}
    assert names <= set(estimator.fingerprint.settings)
    assert estimator.fingerprint != SampledConsistency(Pattern([]), n=6).fingerprint


@pytest.mark.parametrize(
    ("threshold", "matches", "route"),
    [
        # Seven in a row decide 0.7; whether at least nine of ten match, they do not.
        (0.9, [True] * 7 + [False] * 3, "abstain"),
        (0.9, [True] * 10, "answer"),
        # Four misses decide 0.7; five of ten may match all the same.
        (0.5, [False] * 4 + [True] * 6, "answer"),
        (0.7, [True] * 7 + [False] * 3, "answer"),
    ],
)
def test_a_guard_decides_as_all_samples_would_at_its_own_threshold(
    threshold: float, matches: list[bool], route: str
) -> None:
    policy = policy_with(confidence_threshold=threshold)
    guard = guard_with(policy, estimator=SampledConsistency(Pattern(matches)))
    assert guard.decide("q", []).route.value == route


def test_an_estimator_that_the_policy_was_calibrated_on_is_left_as_it_is() -> None:
    estimator = SampledConsistency(Pattern([True] * 7 + [False] * 3))
    policy = policy_with(confidence_threshold=0.9, estimator=estimator.fingerprint)
    decision = guard_with(policy, estimator=estimator).decide("q", [])
    assert decision.confidence == 1.0


class Unhashed(ScriptedLanguageModel):
    """Its fingerprint takes long, so it must not be asked for without need."""

    @property
    def fingerprint(self) -> str:
        raise AssertionError


@pytest.mark.parametrize("kind", [SampledConsistency, AnswerConflict])
def test_what_is_no_language_model_is_refused_at_once(kind: Any) -> None:
    class ChatModel:
        def generate(self) -> None: ...

        def agenerate(self) -> None: ...

    with pytest.raises(InputError, match="ChatModelLM"):
        kind(ChatModel())
    kind(Unhashed())
