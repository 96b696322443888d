"""The choice of a threshold, and that its promise holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import RiskTarget
from knowgate.calibration.risk.leak import LeftOut, certify_leak, thresholds_between
from knowgate.calibration.statistics import binomial_p_value, errors_allowed
from knowgate.guard.routing import StepCalibrator

_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_TIED = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=80)
_SOME = st.lists(_FINITE, min_size=1, max_size=80)


@dataclass(frozen=True)
class _Choice:
    threshold: float | None
    errors: int
    p_value: float


def choose_threshold(
    must_not_pass: Sequence[float], *, risk: float, delta: float, may_pass: Sequence[float] = ()
) -> _Choice:
    """The laxest threshold that is certified, and its test; else the test of the strictest."""
    scores = np.asarray(must_not_pass, dtype=np.float64)
    left_out = LeftOut.of(
        [
            CalibrationRecord(str(i), float(score), None, False, None)
            for i, score in enumerate(must_not_pass)
        ]
    )
    found, threshold = certify_leak(
        left_out,
        thresholds_between(scores, may_pass),
        StepCalibrator(edges=(), values=(0.5,)),
        RiskTarget("leak", risk),
        delta,
    )
    if found.chosen is None:
        p_value = found.points[0].p_value if found.points else 1.0
        return _Choice(None, 0, p_value)
    point = found.points[found.chosen]
    return _Choice(threshold, point.wrong, point.p_value)


@settings(derandomize=True, deadline=None)
@given(st.one_of(_TIED, _SOME), st.one_of(_TIED, _SOME))
def test_it_never_lets_more_pass_than_the_test_allows(
    scores: list[float], may_pass: list[float]
) -> None:
    allowed = errors_allowed(len(scores), 0.2, 0.1)

    choice = choose_threshold(scores, risk=0.2, delta=0.1, may_pass=may_pass)

    assert (choice.threshold is None) or (allowed is not None)
    if choice.threshold is not None and allowed is not None:
        assert math.isfinite(choice.threshold)
        assert choice.errors == sum(score >= choice.threshold for score in scores) <= allowed
        assert choice.p_value == binomial_p_value(choice.errors, len(scores), 0.2) <= 0.1
        # Strictly above the (k+1)-th highest: that alone carries the guarantee.
        assert choice.threshold > sorted(scores, reverse=True)[allowed]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=11, max_size=80), _TIED)
def test_scores_that_may_pass_cannot_move_it_to_where_the_promise_fails(
    scores: list[float], may_pass: list[float]
) -> None:
    allowed = errors_allowed(len(scores), 0.2, 0.1)
    assert allowed is not None

    alone = choose_threshold(scores, risk=0.2, delta=0.1)
    with_others = choose_threshold(scores, risk=0.2, delta=0.1, may_pass=may_pass)

    assert alone.threshold is not None
    assert with_others.threshold is not None
    # They move it within the gap, never down to the score that must not pass.
    assert sorted(scores, reverse=True)[allowed] < with_others.threshold <= alone.threshold + 1
    assert with_others.errors == alone.errors <= allowed


@settings(derandomize=True, deadline=None)
@given(_SOME)
def test_no_laxer_threshold_would_be_certified(scores: list[float]) -> None:
    choice = choose_threshold(scores, risk=0.3, delta=0.2)
    assume(choice.threshold is not None)
    assert choice.threshold is not None

    laxer = [s for s in scores if s < choice.threshold]

    for threshold in laxer:
        passed = sum(score >= threshold for score in scores)
        assert binomial_p_value(passed, len(scores), 0.3) > 0.2


_DRAWS, _DELTA = 1000, 0.1


@pytest.mark.slow
def test_without_ties_the_promise_is_broken_as_often_as_the_tail_says() -> None:
    n, risk = 100, 0.1
    # The true pass rate above the (k+1)-th of n uniform scores is Beta(k+1, n-k).
    rng = np.random.default_rng(n)
    allowed = errors_allowed(n, risk, _DELTA)
    assert allowed is not None
    expected = binomial_p_value(allowed, n, risk)

    broken = 0
    for _ in range(_DRAWS):
        scores = rng.random(n)
        # Scores just above each other one leave no gap, so that nothing is given away.
        choice = choose_threshold(
            scores.tolist(), risk=risk, delta=_DELTA, may_pass=(scores + 1e-12).tolist()
        )
        assert choice.threshold is not None
        broken += 1 - choice.threshold > risk

    assert broken / _DRAWS == pytest.approx(
        expected, abs=3 * math.sqrt(expected * (1 - expected) / _DRAWS)
    )
