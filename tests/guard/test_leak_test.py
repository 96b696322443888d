"""The test of each passage's share of questions: its formula, worked out by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from knowgate.guard.artefacts import LeakTest


def chance(pairs: Sequence[tuple[float, float]], risk: float, most: float, of: LeakTest) -> float:
    """P(total weight ≤ `most`) where each passage has one of two shares and mean `risk`."""
    weight = dict(zip(of.levels, of.weights, strict=True))
    found = 0.0
    for highs in itertools.product([False, True], repeat=len(pairs)):
        probability, total = 1.0, 0
        for (a, b), high in zip(pairs, highs, strict=True):
            share_high = (risk - a) / (b - a)
            probability *= share_high if high else 1.0 - share_high
            total += weight[b if high else a]
        found += probability * (total <= most)
    return found


def test_the_weights_equal_their_formula_by_hand() -> None:
    # λ = 1.6 / √(27 · .2 · .8) = .76980; half a passage loses log(1.15396 / .76906) = .40578,
    # a whole one log(1.15396 / .38416) = 1.09991; 48 · .36892 = 17.7 parts, rounded up.
    assert LeakTest.of([2] * 27, 0.2).weights == (0, 18, 48)


def test_the_p_values_equal_those_by_hand() -> None:
    # Two passages, means of .2: each passes with chance .2, or by half with chance .4.
    test = LeakTest.of([2, 2], 0.2)
    half = test.weights[1]

    p_values = test.p_values(2 * half)

    assert 2 * half < 48
    assert p_values[0] == pytest.approx(0.8 * 0.8)  # both pass or not
    assert p_values[half] == pytest.approx(1 - 0.4 * 0.4)  # both by half, not both do
    assert p_values[2 * half] == pytest.approx(1.0)


@pytest.mark.parametrize(("size", "risk"), [(2, 0.2), (3, 0.2), (2, 0.6), (4, 0.3)])
def test_no_mixture_of_passages_has_a_larger_chance_than_the_p_value(
    size: int, risk: float
) -> None:
    test = LeakTest.of([size] * 5, risk)
    below = [share for share in test.levels if share <= risk]
    pairs = [(a, b) for a in below for b in test.levels if b > risk]
    p_values = test.p_values(3 * 48)

    for total in (0, test.weights[1], 40, 48, 70, 96, 120):
        chances = [
            chance(mixture, risk, total, test)
            for mixture in itertools.combinations_with_replacement(pairs, 5)
        ]
        assert max(chances) <= p_values[total] + 1e-12
        # And it is hardly larger than the worst of them.
        assert p_values[total] <= 1.25 * max(chances)


@pytest.mark.parametrize(("passages", "risk"), [(8, 0.3), (27, 0.2), (100, 0.1)])
def test_with_one_question_per_passage_it_is_the_exact_binomial_tail(
    passages: int, risk: float
) -> None:
    errors = np.arange(passages // 4)
    test = LeakTest.of([1] * passages, risk)

    assert test.p_values(48 * errors[-1])[::48] == pytest.approx(binom.cdf(errors, passages, risk))


@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.floats(0.02, 0.6))
def test_p_values_rise_from_that_of_nothing_passing(sizes: list[int], risk: float) -> None:
    p_values = LeakTest.of(sizes, risk).p_values(100)

    assert (np.diff(p_values) >= 0.0).all()
    assert p_values[0] == pytest.approx((1.0 - risk) ** len(sizes))
    assert p_values[-1] <= 1.0


def test_a_share_between_the_levels_counts_as_the_next() -> None:
    test = LeakTest.of(range(1, 41), 0.2)

    assert len(test.levels) == 21
    assert test.totals(np.asarray([[0.05, 0.0], [0.051, 0.0]])).tolist() == [
        test.weights[1],
        test.weights[2],
    ]
    assert test.total_of([(40, 2, 3), (7, 0, 5)]) == 3 * test.weights[1]


def test_between_no_leak_and_two_there_are_steps() -> None:
    test = LeakTest.of([2] * 27, 0.1)

    [half] = [w for share, w in zip(test.levels, test.weights, strict=True) if share == 0.5]

    p_values = test.p_values(48)
    assert p_values[0] < p_values[half] <= 0.1 < p_values[48]
