"""Sampled consistency stops early and decides as all samples would have."""

from __future__ import annotations

import asyncio
import itertools
import math
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import Confidence, Generation, InputError, LanguageModelError
from knowgate.guard.contracts import PartialGenerationsError
from knowgate.guard.matching import same_answer
from knowgate.guard.prompts import Prompt
from knowgate.guard.signals.confidence import SampledConsistency, Sampling
from knowgate.guard.signals.confidence.stopping import (
    BayesianStopping,
    CurtailedSampling,
)
from knowgate.guard.testing import ScriptedLanguageModel
from tests.support.fakes import FailingLanguageModel
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


@given(st.integers(1, 12), st.data())
@settings(max_examples=20, deadline=None)
def test_any_n_and_threshold_stop_without_waste_or_another_decision(
    n: int, data: st.DataObject
) -> None:
    threshold = data.draw(st.sampled_from([k / n for k in range(1, n + 1)]) | st.floats(0.01, 1))
    pattern = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    model = Pattern(pattern)
    rule = CurtailedSampling(n, threshold)
    found = SampledConsistency(model, sampling=Sampling(n=n), threshold=threshold).estimate("q")
    known = sum(pattern) >= rule.matches_needed
    assert (found.value >= threshold - 1e-9) is known
    assert sum(model.waves) == samples_one_by_one(pattern, rule.matches_needed, rule.misses_needed)


def test_waves_do_not_repeat_each_others_seeds() -> None:
    model = Pattern([True, False] * 5)
    SampledConsistency(model, sampling=Sampling(seed=5)).estimate("q")
    drawn_before = [sum(model.waves[:i]) for i in range(len(model.waves))]
    assert model.seeds == [5 + 1 + drawn for drawn in drawn_before]


@pytest.mark.parametrize("greedy", ["I don't know.", "", "  \n", "unknown", "不知道"])
def test_a_refusal_is_no_confidence_and_costs_no_sample(greedy: str) -> None:
    model = Pattern([True] * 10, greedy=greedy)
    found = SampledConsistency(model).estimate("q")
    assert found == Confidence(0.0, greedy.strip(), samples_drawn=0, samples_saved=10, calls=1)
    assert model.waves == []


def test_an_answer_of_punctuation_alone_never_counts_as_repeated() -> None:
    model = ScriptedLanguageModel(default="...")
    assert SampledConsistency(model).estimate("q").value == 0.0


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


# -- stopping rules --------------------------------------------------------------------


class FirstTwo:
    """A rule of somebody else's: two samples, whatever they say."""

    def next_wave(self, matches: int, misses: int) -> int:
        return 2 - matches - misses


@pytest.mark.parametrize(
    ("stopping", "pattern", "drawn", "value"),
    [
        ("none", [True] * 10, 10, 1.0),
        ("none", [False] * 10, 10, 0.0),
        ("curtailed", [True] * 10, 7, 1.0),
        ("curtailed", [False] * 10, 4, 0.0),
        ("bayesian", [True] * 10, 6, 1.0),
        ("bayesian", [False] * 10, 3, 0.0),
        (BayesianStopping(flip_probability=0.01), [True] * 10, 5, 1.0),
        (FirstTwo(), [True, False] * 5, 2, 0.5),
    ],
)
def test_the_stopping_rule_says_how_many_samples_are_drawn(
    stopping: Any, pattern: list[bool], drawn: int, value: float
) -> None:
    found = SampledConsistency(Pattern(pattern), stopping=stopping).estimate("q")

    assert found == Confidence(value, ANSWER, drawn, 10 - drawn, calls=1 + drawn)


@pytest.mark.parametrize("stopping", ["curtailed", "bayesian", BayesianStopping(), FirstTwo()])
def test_a_guard_puts_its_threshold_into_every_rule_that_has_one(stopping: Any) -> None:
    estimator = SampledConsistency(Pattern([]), stopping=stopping).deciding_at(0.9)

    assert estimator.fingerprint.settings["threshold"] == 0.9
    rule = str(estimator.fingerprint.settings["stopping"])
    assert "threshold=0.9" in rule or rule.endswith("FirstTwo")


def test_a_threshold_out_of_range_is_named() -> None:
    with pytest.raises(InputError, match="'threshold'"):
        SampledConsistency(Pattern([]), threshold=1.5)


GUESSES = {
    "sure": ["Ada"],
    "likely": ["Ada"] * 8 + ["Grace", "Joan"],
    "torn": ["Ada"] * 3 + ["Grace"] * 2,
    "lost": ["Ada", "Grace", "Joan", "Mary", "Edith", "Dorothy"],
}


@pytest.mark.parametrize("seed", range(5))
def test_every_rule_sees_the_samples_that_all_ten_would_have_been(seed: int) -> None:
    for question, guesses in GUESSES.items():
        [ten] = ScriptedLanguageModel({question: guesses}).generate(
            [f"Question: {question}"], n=10, temperature=1.0, seed=seed + 1
        )
        matches = [generation.text == "Ada" for generation in ten]
        for stopping in ("none", "curtailed", "bayesian"):
            model = ScriptedLanguageModel({question: guesses})
            found = SampledConsistency(
                model, sampling=Sampling(seed=seed), stopping=stopping, prompt=PROMPT
            ).estimate(question)
            drawn = found.samples_drawn
            assert found.value == sum(matches[:drawn]) / drawn
            if stopping == "curtailed":
                assert (found.value >= 0.7) is (sum(matches) >= 7)


PROMPT = Prompt("short", "Question: {question}")


# -- the greedy answer's own probability -----------------------------------------------


def sure(probability: float, **settings: Any) -> tuple[Confidence, ScriptedLanguageModel]:
    model = ScriptedLanguageModel(
        default="Ada", logprobs={"Ada": math.log(probability) if probability else -math.inf}
    )
    return SampledConsistency(model, **settings).estimate("q"), model


def test_a_probable_greedy_answer_needs_no_sample() -> None:
    found, model = sure(0.95)

    assert found.value == pytest.approx(0.95)
    assert (found.samples_drawn, found.samples_saved, found.calls) == (0, 10, 1)
    assert model.generated == 1


@pytest.mark.parametrize(
    ("probability", "settings"),
    [
        (0.89, {}),
        (0.95, {"shortcut": None}),
        (0.95, {"shortcut": 0.96}),
        (0.95, {"threshold": 0.9}),  # ten samples of such an answer often say less than nine
        (0.95, {"sampling": Sampling(temperature=1.5)}),  # at which the answer is less probable
        (0.05, {}),
        (0.0, {}),
    ],
)
def test_otherwise_samples_decide(probability: float, settings: dict[str, Any]) -> None:
    found, _ = sure(probability, **settings)

    assert found.samples_drawn > 0
    assert found.value == 1.0


def test_an_accepted_answer_is_accepted_at_the_threshold_too() -> None:
    found, _ = sure(0.9999, threshold=0.99)

    assert found.samples_drawn == 0
    assert found.value >= 0.99


def test_a_refusal_is_none_the_surer_for_being_probable() -> None:
    model = ScriptedLanguageModel(default="I don't know", logprobs={"I don't know": -0.001})

    assert SampledConsistency(model).estimate("q").value == 0.0


@pytest.mark.parametrize("logprobs", [(), (float("nan"),), None])
def test_log_probabilities_that_say_nothing_settle_nothing(logprobs: Any) -> None:
    class Model(ScriptedLanguageModel):
        def _generation(self, text: str) -> Generation:
            return Generation(text, logprobs)

    assert SampledConsistency(Model(default="Ada")).estimate("q").samples_drawn == 7


# -- a model that fails part-way --------------------------------------------------------


@pytest.mark.parametrize("stopping", ["none", "curtailed"])
async def test_six_of_ten_samples_decide_and_say_so(stopping: Any) -> None:
    script = {"q": ["Ada", "Ada", "Ada", "Grace"]}
    whole = SampledConsistency(ScriptedLanguageModel(script), stopping="none")

    def estimator() -> SampledConsistency:
        model = FailingLanguageModel(script, fails_after=7)
        return SampledConsistency(model, stopping=stopping)

    found = estimator().estimate("q")

    assert found == await estimator().aestimate("q")
    assert (found.samples_drawn, found.samples_saved, found.calls) == (6, 0, 7)
    assert found.partial
    assert found.value * 6 == pytest.approx(round(found.value * 6))
    assert not whole.estimate("q").partial


def test_samples_that_fix_the_decision_all_the_same_are_not_partial() -> None:
    model = FailingLanguageModel(default="Ada", fails_after=8)

    found = SampledConsistency(model, stopping=SlowRule()).estimate("q")

    assert found == Confidence(1.0, "Ada", 7, 3, calls=8)


class SlowRule(CurtailedSampling):
    """As the exact rule, with waves that go past what is needed."""

    def next_wave(self, matches: int, misses: int) -> int:
        return 9 if CurtailedSampling.next_wave(self, matches, misses) else 0


def test_an_error_in_a_later_wave_leaves_the_earlier_ones() -> None:
    model = FailingLanguageModel({"q": ["Ada", "Grace"]}, fails_after=5)

    found = SampledConsistency(model).estimate("q")

    assert (found.samples_drawn, found.partial) == (4, True)


@pytest.mark.parametrize(
    ("fails_after", "error"), [(1, LanguageModelError), (3, PartialGenerationsError)]
)
def test_too_few_samples_are_an_error(fails_after: int, error: type[Exception]) -> None:
    model = FailingLanguageModel(default="Ada", fails_after=fails_after)

    with pytest.raises(error, match="the script ends here"):
        SampledConsistency(model, stopping="none").estimate("q")


# -- matching ---------------------------------------------------------------------------


def test_numbers_and_dates_match_in_any_writing() -> None:
    model = ScriptedLanguageModel({"q": ["July 4, 1776", "4 July 1776", "1776-07-04"]})

    assert SampledConsistency(model).estimate("q").value == 1.0


async def test_a_matcher_of_ones_own_works_in_a_thread_when_asynchronous() -> None:
    threads: list[int] = []

    def same(first: str, second: str) -> bool:
        threads.append(threading.get_ident())
        return True

    def estimator() -> SampledConsistency:
        model = ScriptedLanguageModel({"q": ["car", "automobile"]})
        return SampledConsistency(model, same=same)

    assert (await estimator().aestimate("q")).value == 1.0
    assert threading.get_ident() not in threads
    assert estimator().estimate("q") == await estimator().aestimate("q")


def test_samples_in_other_words_than_the_greedy_sentence_count_as_repeated() -> None:
    question = "What is the capital of Poland?"
    said = ("The capital of Poland is Warsaw.", "It is Warsaw.", "Poland's capital is Warsaw.")
    rest: dict[str, Any] = {"stopping": "none", "shortcut": None}

    by_default = SampledConsistency(ScriptedLanguageModel({question: said}), **rest)
    by_letters = SampledConsistency(
        ScriptedLanguageModel({question: said}), same=same_answer, **rest
    )

    assert by_default.estimate(question).value == 1.0
    assert by_letters.estimate(question).value < 1.0
    assert by_default.fingerprint != by_letters.fingerprint
