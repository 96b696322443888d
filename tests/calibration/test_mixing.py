"""Mixes of scorers: fitted, and compared with the best scorer alone on cases held out."""

from __future__ import annotations

import numpy as np
import pytest

from knowgate.calibration.mixing import MixedCase, fit_mix

NUMBERS = np.random.default_rng(3).normal(size=(400, 4))


def cases(
    first: float, second: float, *, scale: float = 1.0, questions: int = 100
) -> list[MixedCase]:
    """Two cases a question; the values of two scorers hold so much of whether it suffices."""
    found = []
    for row in range(2 * questions):
        sufficient, noise = row % 2 == 0, NUMBERS[row]
        sign = 1.0 if sufficient else -1.0
        values = (first * sign + noise[0], scale * (second * sign + noise[1]))
        parts = ((values[0], noise[2]), (values[1], noise[3]))
        found.append(MixedCase(parts, sufficient, row // 2))
    return found


def test_two_scorers_that_know_different_things_are_better_together() -> None:
    fit = fit_mix(cases(0.8, 0.8))
    assert fit.is_better
    assert (fit.cases, fit.units) == (200, 100)
    assert fit.mix.value is not None
    assert fit.alone.value is not None
    assert fit.difference.value == pytest.approx(fit.mix.value - fit.alone.value)
    # Two independent normal values of this strength are worth the log-odds 1.6 · (a + b).
    (a, _), (b, _) = fit.rule.weights
    assert a == pytest.approx(1.6, abs=0.5)
    assert b == pytest.approx(1.6, abs=0.5)


@pytest.mark.parametrize("second", [0.0, -2.0])
def test_a_scorer_that_knows_nothing_or_the_contrary_does_not_make_a_mix(second: float) -> None:
    fit = fit_mix(cases(1.5, second))
    assert not fit.is_better
    assert fit.best == 0
    assert all(weight >= 0 for pair in fit.rule.weights for weight in pair)
    if second < 0:
        assert fit.rule.weights[1][0] == 0.0


def test_the_scale_of_a_scorer_changes_its_weight_alone() -> None:
    plain, scaled = fit_mix(cases(0.8, 0.8)), fit_mix(cases(0.8, 0.8, scale=1000.0))
    assert scaled.rule.weights[1][0] == pytest.approx(plain.rule.weights[1][0] / 1000, rel=1e-4)
    assert scaled.rule.weights[0] == pytest.approx(plain.rule.weights[0], rel=1e-4)
    assert scaled.difference.value == pytest.approx(plain.difference.value, abs=1e-3)


def test_the_same_cases_give_the_same_mix_with_few_digits() -> None:
    first, again = fit_mix(cases(0.8, 0.8)), fit_mix(cases(0.8, 0.8))
    assert first == again
    assert all(float(f"{one:.6g}") == one for pair in first.rule.weights for one in pair)


def test_too_few_units_or_one_kind_alone_are_refused() -> None:
    with pytest.raises(ValueError, match="10 units"):
        fit_mix(cases(1.0, 1.0, questions=9))
    with pytest.raises(ValueError, match="both kinds"):
        fit_mix([one for one in cases(1.0, 1.0) if one.sufficient])
