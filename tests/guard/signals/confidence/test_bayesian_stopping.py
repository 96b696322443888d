"""The predictive stopping rule: computed by hand, exhaustively, and by simulation."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom

from knowgate.guard.errors import InputError
from knowgate.guard.signals.confidence.stopping import (
    BayesianStopping,
    CurtailedSampling,
    StoppingRule,
)

PATTERNS = tuple(itertools.product((True, False), repeat=10))
DEFAULT = BayesianStopping()


def walked(rule: BayesianStopping, pattern: tuple[bool, ...]) -> tuple[int, bool]:
    """Samples drawn in the rule's waves over `pattern`, and the decision."""
    matches = drawn = 0
    while wave := rule.next_wave(matches, drawn - matches):
        matches += sum(pattern[drawn : drawn + wave])
        drawn += wave
    return drawn, matches / drawn >= rule.threshold


def stopped_singly(rule: BayesianStopping, pattern: tuple[bool, ...]) -> int:
    """Samples drawn when the rule is asked after every single one."""
    matches = 0
    for drawn, match in enumerate(pattern, start=1):
        matches += match
        if rule.stops(matches, drawn - matches):
            return drawn
    raise AssertionError


def expected(rule: BayesianStopping, weight: Any) -> tuple[float, float]:
    """Mean samples, and share of decisions unlike those of all ten, over all patterns."""
    mean = differing = 0.0
    for pattern in PATTERNS:
        drawn, known = walked(rule, pattern)
        share = weight(sum(pattern))
        mean += share * drawn
        differing += share * (known is not (sum(pattern) >= 7))
    return mean, differing


def under_prior(matches: int) -> float:
    """Chance of one given pattern with so many matches, p ~ Beta(.5, .5)."""
    return math.gamma(matches + 0.5) * math.gamma(10.5 - matches) / (math.pi * math.factorial(10))


def test_three_misses_are_as_unlikely_to_turn_as_worked_out_by_hand() -> None:
    # All seven that are left must match: E[p^7] under Beta(.5, 3.5), a product of means.
    by_hand = math.prod(Fraction(2 * i + 1, 2 * (4 + i)) for i in range(7))

    assert by_hand == Fraction(135135, 77414400)
    assert DEFAULT.flip_chance(0, 3) == pytest.approx(float(by_hand), rel=1e-12)


def test_six_matches_are_as_unlikely_to_turn_as_worked_out_by_hand() -> None:
    # All four that are left must miss: E[(1 - p)^4] under Beta(6.5, .5).
    by_hand = Fraction(1, 14) * Fraction(3, 16) * Fraction(5, 18) * Fraction(7, 20)

    assert DEFAULT.flip_chance(6, 0) == pytest.approx(float(by_hand), rel=1e-12)


@pytest.mark.parametrize("prior", [(0.5, 0.5), (1.0, 1.0), (2.0, 0.3)])
def test_every_flip_chance_is_the_tail_that_scipy_computes(prior: tuple[float, float]) -> None:
    rule = BayesianStopping(prior=prior)
    for matches, misses in itertools.product(range(7), range(4)):
        if matches + misses:
            left = 10 - matches - misses
            known = betabinom.sf(6 - matches, left, prior[0] + matches, prior[1] + misses)
            guess = matches / (matches + misses) >= 0.7
            assert rule.flip_chance(matches, misses) == pytest.approx(
                1 - known if guess else known, abs=1e-12
            )


def test_the_default_ends_sooner_than_the_exact_rule_in_two_places_only() -> None:
    exact = CurtailedSampling()
    sooner = [
        (matches, misses)
        for matches, misses in itertools.product(range(7), range(4))
        if DEFAULT.stops(matches, misses)
    ]

    assert sooner == [(0, 3), (6, 0)]
    assert all(exact.next_wave(*place) > 0 for place in sooner)


@pytest.mark.parametrize("flip", [0.0001, 0.005, 0.01, 0.1, 0.4])
def test_waves_draw_no_sample_more_than_asking_after_each(flip: float) -> None:
    rule = BayesianStopping(flip_probability=flip)
    for pattern in PATTERNS:
        assert walked(rule, pattern)[0] == stopped_singly(rule, pattern)


@given(st.integers(1, 12), st.floats(0.05, 1), st.floats(0.001, 0.4), st.data())
@settings(max_examples=20, deadline=None)
def test_any_rule_ends_within_n_and_no_later_than_the_exact_one(
    n: int, threshold: float, flip: float, data: st.DataObject
) -> None:
    rule = BayesianStopping(n, threshold, flip)
    exact = CurtailedSampling(n, threshold)
    pattern = tuple(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))

    drawn, _ = walked(rule, pattern)

    matches = sum(pattern[:drawn])
    assert drawn <= n
    assert drawn == stopped_singly(rule, pattern)
    assert all(exact.next_wave(sum(pattern[:k]), k - sum(pattern[:k])) > 0 for k in range(drawn)), (
        matches
    )


@pytest.mark.parametrize("flip", [0.005, 0.01])
def test_decisions_differ_no_more_often_than_declared_at_any_p_or_under_the_prior(
    flip: float,
) -> None:
    rule = BayesianStopping(flip_probability=flip)
    for p in np.linspace(0, 1, 101):
        _, differing = expected(rule, lambda m, p=p: p**m * (1 - p) ** (10 - m))
        assert differing <= flip, p
    mean, differing = expected(rule, under_prior)
    print(f"flip {flip}: {mean:.2f} samples, {100 * differing:.3f} % other decisions")
    assert differing < flip / 4
    assert mean < 5.8 if flip == 0.005 else mean < 5.5


def test_a_simulation_agrees_with_what_is_declared() -> None:
    dice = np.random.default_rng(7)
    chances = dice.beta(0.5, 0.5, size=20_000)
    rolled = dice.random((len(chances), 10)) < chances[:, None]
    differing = drawn = 0
    for row in rolled:
        taken, known = walked(DEFAULT, tuple(row.tolist()))
        drawn += taken
        differing += known is not bool(row.sum() >= 7)

    print(f"{drawn / len(chances):.2f} samples, {differing} of {len(chances)} differ")
    assert differing / len(chances) <= DEFAULT.flip_probability
    assert 5.6 < drawn / len(chances) < 6.0


def test_a_rule_at_another_threshold_keeps_its_other_settings() -> None:
    rule = BayesianStopping(12, 0.7, 0.02, (1.0, 2.0)).deciding_at(0.9)

    assert rule == BayesianStopping(12, 0.9, 0.02, (1.0, 2.0))
    assert isinstance(rule, StoppingRule)


def test_many_samples_do_not_overflow() -> None:
    rule = BayesianStopping(n=3000)

    assert 0.0 <= rule.flip_chance(700, 310) <= 1.0


def test_a_wrong_setting_is_named_even_if_it_was_given_by_its_place() -> None:
    with pytest.raises(InputError, match="field 'n': Input should be greater"):
        CurtailedSampling(0, 0.7)
