"""The simulation of reviewed leaks: what it draws, and that the promise holds in it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.support.paths import BENCHMARKS


@pytest.fixture(scope="module")
def simulation() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("leak_review", BENCHMARKS / "leak_review.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


@pytest.mark.parametrize("mixed", [False, True])
def test_the_risk_is_the_share_among_the_questions_that_count(
    simulation: Any, mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "QUESTIONS", 400_000)
    world = simulation.World(0.3, mixed)
    scores, answered = world.draw(np.random.default_rng(0))
    passes = scores >= 1.0
    counted = (passes & ~answered).sum() / (~(passes & answered)).sum()
    assert world.risk(1.0) == pytest.approx(counted, abs=0.003)


def test_the_certified_threshold_is_found_again(simulation: Any) -> None:
    scores = np.linspace(-2.0, 2.0, 60)
    threshold = simulation.certified(scores, np.zeros(60, dtype=bool))
    # Two of sixty may pass: P(at most 2 of 60 at 10 %) = 0.053, and of 3 it is 0.137.
    assert (scores >= threshold).sum() == 2


@pytest.mark.slow
@pytest.mark.parametrize("error", [0.0, 0.05])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_promise_holds_when_the_highest_scores_are_reviewed(
    simulation: Any, mixed: bool, error: float
) -> None:
    world = simulation.World(0.2, mixed)
    unreviewed = simulation.broken(world, simulation.Reviewer(0), 30)
    found = simulation.broken(world, simulation.Reviewer(40, error), 60, seed=1)

    # Of 60 draws more than 11 would break a promise of one in ten with probability 0.02.
    assert found.alpha <= 11 / 60
    assert found.by_error <= found.alpha
    assert not error or found.with_error <= 0.05
    assert found.false_abstention < unreviewed.false_abstention - 0.1


@pytest.mark.slow
def test_calibrating_after_every_few_reviews_and_keeping_the_laxest_breaks_nothing(
    simulation: Any,
) -> None:
    reviewer = simulation.Reviewer(40, steps=True)
    assert simulation.broken(simulation.World(0.2, True), reviewer, 30).alpha <= 6 / 30


def test_whoever_calls_every_leak_answered_hides_them(simulation: Any) -> None:
    scores, answered = np.linspace(-2.0, 2.0, 100), np.zeros(100, dtype=bool)
    rng = np.random.default_rng(0)
    honest = simulation.Reviewer(20).threshold(scores, answered, rng)
    lenient = simulation.Reviewer(20, 1.0, lenient=True).threshold(scores, answered, rng)
    assert lenient < honest
