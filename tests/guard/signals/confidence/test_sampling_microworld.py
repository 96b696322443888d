"""Sampled consistency on the embedded language model: what it decides, and what that costs."""

from __future__ import annotations

import statistics
from random import Random
from typing import Any

import pytest

from knowgate.adapters.huggingface import HuggingFaceLM
from knowgate.guard import Confidence
from knowgate.guard.prompts import Prompt
from knowgate.guard.signals.confidence import SampledConsistency
from knowgate.guard.signals.confidence.stopping import (
    BayesianStopping,
    CurtailedSampling,
    StoppingRule,
)
from knowgate.offline_eval.testbed import World, default_world
from knowgate.offline_eval.testbed.check import microworld_model_path

pytestmark = pytest.mark.slow

QUESTIONS = 50
CLOSED_BOOK = Prompt("microworld_closed_book", World.prompt("closed_book"))


@pytest.fixture(scope="module")
def lm() -> HuggingFaceLM:
    return HuggingFaceLM(microworld_model_path(), device="cpu", dtype="float32", batch_size=80)


@pytest.fixture(scope="module")
def questions() -> list[str]:
    world = default_world()
    facts = Random(1).sample(world.facts, QUESTIONS)
    return [world.questions(fact)[0].text for fact in facts]


@pytest.fixture(scope="module")
def ten(lm: HuggingFaceLM, questions: list[str]) -> list[Confidence]:
    """All ten samples of every question, in one call."""
    return estimator(lm, stopping="none", shortcut=None).estimate_many(questions)


def estimator(lm: HuggingFaceLM, **settings: Any) -> SampledConsistency:
    return SampledConsistency(lm, prompt=CLOSED_BOOK, **settings)


def known(found: Confidence) -> bool:
    return found.value >= 0.7


@pytest.mark.parametrize(
    ("settings", "equal", "most_samples"),
    [
        ({"shortcut": None}, 1.0, 6.5),
        ({}, 1.0, 5.5),
        ({"stopping": "bayesian", "shortcut": None}, 0.995, 5.5),
    ],
    ids=["curtailed_alone", "curtailed", "bayesian_alone"],
)
def test_stopped_decisions_are_those_of_all_ten_samples(
    lm: HuggingFaceLM,
    questions: list[str],
    ten: list[Confidence],
    settings: dict[str, Any],
    equal: float,
    most_samples: float,
) -> None:
    found = estimator(lm, **settings).estimate_many(questions)

    same = statistics.mean(known(f) is known(t) for f, t in zip(found, ten, strict=True))
    drawn = statistics.mean(f.samples_drawn for f in found)
    print(f"{settings}: {100 * same:.1f} % equal at {drawn:.2f} samples")
    assert same >= equal
    assert drawn <= most_samples
    assert all(f.samples_drawn + f.samples_saved == 10 for f in found)


def test_every_rule_replayed_over_ten_drawn_samples_draws_the_same_ones(
    lm: HuggingFaceLM, questions: list[str]
) -> None:
    some = questions[:30]
    prompts = [CLOSED_BOOK.fill(question=question) for question in some]
    rows = lm.generate(prompts, n=10, temperature=1.0, seed=1)
    rules: tuple[StoppingRule, ...] = (CurtailedSampling(), BayesianStopping())
    for rule in rules:
        found = estimator(lm, stopping=rule, shortcut=None).estimate_many(some)
        for one, row in zip(found, rows, strict=True):
            if one.samples_drawn == 0:  # a refusal
                continue
            same = [generation.text.strip() == one.answer for generation in row]
            drawn = 0
            while wave := rule.next_wave(sum(same[:drawn]), drawn - sum(same[:drawn])):
                drawn += wave
            assert one.samples_drawn == drawn
            assert one.value == sum(same[:drawn]) / drawn


def test_a_wave_costs_one_prefill(lm: HuggingFaceLM, questions: list[str]) -> None:
    lengths: list[tuple[int, ...]] = []
    hook = lm.engine.network.model.register_forward_pre_hook(
        lambda _, __, arguments: lengths.append(tuple(arguments["input_ids"].shape)),
        with_kwargs=True,
    )
    torn = estimator(lm, stopping="none", shortcut=None).estimate(questions[0])
    hook.remove()

    prefills = [shape for shape in lengths if shape[1] > 1]
    assert torn.samples_drawn == 10
    assert len(prefills) == 2  # the greedy answer's, and the ten samples'
    assert all(rows == 1 for rows, _ in prefills)
    assert (10, 1) in lengths
