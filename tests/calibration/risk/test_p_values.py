"""Tests of the p-values and of the procedures that use several of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.calibration.risk.certificate import hoeffding_bentkus_p_value
from knowgate.calibration.statistics import binomial_p_value


def test_the_binomial_tail_equals_a_sum_by_hand() -> None:
    by_hand = sum(math.comb(20, k) * 0.1**k * 0.9 ** (20 - k) for k in range(2))
    assert binomial_p_value(1, 20, 0.1) == pytest.approx(by_hand, rel=1e-12)


def test_hoeffding_bentkus_equals_its_formula_by_hand() -> None:
    # Mean loss .05 against .1: exp(-100 · KL(.05 || .1)), and e times the tail at 5.
    entropy = 0.05 * math.log(0.05 / 0.1) + 0.95 * math.log(0.95 / 0.9)
    tail = sum(math.comb(100, k) * 0.1**k * 0.9 ** (100 - k) for k in range(6))
    expected = min(math.exp(-100 * entropy), math.e * tail)
    assert hoeffding_bentkus_p_value(5.0, 100, 0.1) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("risk", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("n", [20, 100, 1000])
def test_hoeffding_bentkus_equals_mapie(n: int, risk: float) -> None:
    from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

    for mean in (0.0, 0.013, 0.04, 0.1, 0.35):
        theirs = compute_hoeffding_bentkus_p_value(np.asarray([mean]), n, np.asarray([risk]))
        ours = hoeffding_bentkus_p_value(mean * n, n, risk)
        # Theirs is not cut off at 1, and rounds n · mean up with its floating error.
        assert ours == pytest.approx(min(1.0, float(np.ravel(theirs)[0])), rel=1e-9)


@given(st.integers(1, 300), st.floats(0.001, 0.999), st.data())
def test_for_errors_the_exact_tail_is_never_larger(
    n: int, risk: float, data: st.DataObject
) -> None:
    errors = data.draw(st.integers(0, n))
    assert binomial_p_value(errors, n, risk) <= hoeffding_bentkus_p_value(errors, n, risk) + 1e-12


def test_a_sum_of_costs_with_rounding_error_costs_no_whole_question() -> None:
    assert 0.1 + 0.2 > 0.3
    assert hoeffding_bentkus_p_value(10 * (0.1 + 0.2), 40, 0.2) == pytest.approx(
        hoeffding_bentkus_p_value(3.0, 40, 0.2)
    )
