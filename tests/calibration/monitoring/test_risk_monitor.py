"""Evidence about a risk: by hand, against a peer formula, and in simulation at all times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.calibration.monitoring._streams import (
    STAKES,
    RiskMonitor,
    confidence_sequence,
    log_evidence_above,
)

Counts = NDArray[np.float64]


def streams(seed: int, risk: float, n: int, steps: int) -> tuple[Counts, Counts]:
    """Counts of wrong and right after each step, each of shape (n, steps)."""
    wrong = np.cumsum(np.random.default_rng(seed).random((n, steps)) < risk, axis=1)
    return wrong.astype(np.float64), (np.arange(1, steps + 1) - wrong).astype(np.float64)


def test_the_evidence_by_hand() -> None:
    # Two right replies and a wrong one against a risk of .2.
    capitals = [(1 - k) * (1 - k) * (1 - k + k / 0.2) for k in STAKES]

    found = log_evidence_above(0.2, 1, 2)

    assert float(found) == pytest.approx(math.log(sum(capitals) / len(capitals)))


def test_the_monitor_says_what_the_formula_says() -> None:
    monitor = RiskMonitor(0.1, 0.05)
    for wrong in [False, False, True, False, True]:
        monitor.observe(wrong)

    low, high = confidence_sequence(2, 3, 0.05)
    assert monitor.log_evidence == float(log_evidence_above(0.1, 2, 3))
    assert (monitor.estimate.value, monitor.estimate.n) == (0.4, 5)
    assert (monitor.estimate.low, monitor.estimate.high) == (low, high)
    # The bounds are where half the capital has grown to 1/δ.
    against = math.log(2 / 0.05)
    assert float(log_evidence_above(low, 2, 3)) == pytest.approx(against)
    assert float(log_evidence_above(1 - high, 3, 2)) == pytest.approx(against)


@pytest.mark.parametrize("wrong", [True, False])
def test_a_run_of_equal_labels_has_bounds_that_touch_the_end(wrong: bool) -> None:
    monitor = RiskMonitor(0.1, 0.1)
    for _ in range(50):
        monitor.observe(wrong)
    found = monitor.estimate
    assert found.low is not None
    assert found.high is not None
    assert (
        (found.low > 0.8 and found.high == 1.0)
        if wrong
        else (found.low, found.high < 0.2) == (0.0, True)
    )


@pytest.mark.parametrize("risk", [0.05, 0.2])
def test_a_risk_at_its_bound_raises_a_false_alarm_with_probability_delta_at_most(
    risk: float,
) -> None:
    delta, alarms = 0.1, 0
    for seed in range(10):
        evidence = log_evidence_above(risk, *streams(seed, risk, 50, 2000))
        alarms += int((evidence.max(axis=1) >= -math.log(delta)).sum())
    assert alarms / 500 <= delta + 2 * math.sqrt(delta * (1 - delta) / 500)


@pytest.mark.parametrize("risk", [0.02, 0.3])
def test_the_bounds_cover_the_risk_at_all_times_together(risk: float) -> None:
    delta, missed = 0.1, 0
    for seed in range(6):
        wrong, right = streams(seed, risk, 50, 1500)
        against = math.log(2 / delta)
        above = log_evidence_above(risk, wrong, right) >= against
        below = log_evidence_above(1 - risk, right, wrong) >= against
        missed += int((above | below).any(axis=1).sum())
    assert missed / 300 <= delta + 2 * math.sqrt(delta * (1 - delta) / 300)


@pytest.mark.parametrize(("risk", "labels"), [(0.1, 250), (0.15, 70), (0.3, 15)])
def test_a_broken_promise_is_found(risk: float, labels: int) -> None:
    alarmed = log_evidence_above(0.05, *streams(0, risk, 200, 1500)) >= math.log(10)
    assert alarmed.any(axis=1).mean() > 0.99
    assert np.median(alarmed.argmax(axis=1) + 1) <= labels


def test_an_alarm_stays_whatever_comes_after() -> None:
    monitor = RiskMonitor(0.1, 0.1)
    for wrong in [True] * 10 + [False] * 500:
        monitor.observe(wrong)
    assert monitor.alarm
    assert monitor.alarmed_at is not None
    assert monitor.alarmed_at <= 10
    assert monitor.log_evidence < 0
