"""Distribution functions without scipy, against scipy's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from knowgate.calibration.distributions import (
    beta_cdf,
    beta_quantile,
    chi_squared_cdf,
    normal_quantile,
    root,
    student_quantile,
)

shapes = st.floats(0.5, 5_000)
levels = st.floats(1e-6, 1 - 1e-6)


def test_values_worked_out_by_hand() -> None:
    # Beta(1, n) has 1 - (1 - x)^n; chi-squared with two degrees 1 - exp(-x / 2).
    assert beta_cdf(0.3, 1, 4) == pytest.approx(1 - 0.7**4, rel=1e-14)
    assert beta_quantile(0.95, 1, 4) == pytest.approx(1 - 0.05**0.25, rel=1e-11)
    assert chi_squared_cdf(3.0, 2) == pytest.approx(1 - math.exp(-1.5), rel=1e-14)
    # Student's t with one degree is Cauchy's.
    assert student_quantile(0.75, 1) == pytest.approx(1.0, rel=1e-10)
    assert student_quantile(0.25, 1) == pytest.approx(-1.0, rel=1e-10)
    assert (beta_cdf(-1, 2, 2), beta_cdf(2, 2, 2), chi_squared_cdf(0, 3)) == (0.0, 1.0, 0.0)


@settings(max_examples=80, deadline=None)
@given(x=st.floats(0.0, 1.0), a=shapes, b=shapes)
def test_beta_probabilities_are_scipys(x: float, a: float, b: float) -> None:
    assert beta_cdf(x, a, b) == pytest.approx(float(stats.beta.cdf(x, a, b)), abs=1e-10)


@settings(max_examples=50, deadline=None)
@given(level=levels, a=shapes, b=shapes)
def test_beta_quantiles_are_scipys(level: float, a: float, b: float) -> None:
    assert beta_quantile(level, a, b) == pytest.approx(float(stats.beta.ppf(level, a, b)), abs=1e-9)


@settings(max_examples=50, deadline=None)
@given(level=st.floats(0.001, 0.999), freedom=st.floats(1.0, 10_000))
def test_quantiles_of_students_t_and_the_normal_are_scipys(level: float, freedom: float) -> None:
    expected = float(stats.t.ppf(level, freedom))
    assert student_quantile(level, freedom) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert normal_quantile(level) == pytest.approx(float(stats.norm.ppf(level)), abs=1e-12)


@settings(max_examples=80, deadline=None)
@given(x=st.floats(1e-3, 2e4), freedom=st.floats(0.5, 2_000), c=st.floats(0.0, 2e4))
def test_chi_squared_probabilities_are_scipys(x: float, freedom: float, c: float) -> None:
    expected = stats.ncx2.cdf(x, freedom, c) if c > 0 else stats.chi2.cdf(x, freedom)
    assert chi_squared_cdf(x, freedom, c) == pytest.approx(float(expected), abs=1e-8)


@settings(max_examples=50, deadline=None)
@given(zero=st.floats(-50, 50), power=st.sampled_from([1, 3, 5]))
def test_roots_are_found_in_few_steps(zero: float, power: int) -> None:
    asked: list[float] = []

    def function(x: float) -> float:
        asked.append(x)
        return (x - zero) ** power

    found = root(function, -60.0, 60.0)
    assert found == pytest.approx(zero, abs=1e-4 if power > 1 else 1e-9)
    assert len(asked) < 120


def test_a_root_needs_two_signs() -> None:
    with pytest.raises(ValueError, match="same sign"):
        root(lambda x: x * x + 1, -1.0, 1.0)
    assert root(lambda x: x, 0.0, 1.0) == 0.0
