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
from knowgate.guard import InputError

RIGHT_OR_WRONG = np.array([0.0, 1.0])


def streams(seed: int, risk: float, n: int, steps: int) -> NDArray[np.float64]:
    """Counts of right and wrong after each step, shape (n, steps, 2)."""
    wrong = np.cumsum(np.random.default_rng(seed).random((n, steps)) < risk, axis=1)
    return np.stack([np.arange(1, steps + 1) - wrong, wrong], axis=-1).astype(np.float64)


def test_the_evidence_by_hand() -> None:
    # Two right replies and a wrong one against a risk of .2.
    capitals = [(1 - k) * (1 - k) * (1 - k + k / 0.2) for k in STAKES]

    found = log_evidence_above(RIGHT_OR_WRONG, np.array([2.0, 1.0]), 0.2)

    assert float(found) == pytest.approx(math.log(sum(capitals) / len(capitals)))


def test_the_monitor_says_what_the_formula_says() -> None:
    monitor = RiskMonitor(0.1, 0.05)
    for wrong in [False, False, True, False, True]:
        monitor.observe(wrong)

    counts = np.array([3.0, 2.0])
    low, high = confidence_sequence(RIGHT_OR_WRONG, counts, 0.05)
    assert monitor.log_evidence == float(log_evidence_above(RIGHT_OR_WRONG, counts, 0.1))
    assert (monitor.estimate.value, monitor.estimate.n) == (0.4, 5)
    assert (monitor.estimate.low, monitor.estimate.high) == (low, high)
    # The bounds are where half the capital has grown to 1/δ.
    against = math.log(2 / 0.05)
    assert float(log_evidence_above(RIGHT_OR_WRONG, counts, low)) == pytest.approx(against)
    assert float(log_evidence_above(1 - RIGHT_OR_WRONG, counts, 1 - high)) == pytest.approx(against)


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
        counts = streams(seed, risk, 50, 2000)
        evidence = log_evidence_above(RIGHT_OR_WRONG, counts, risk)
        alarms += int((evidence.max(axis=1) >= -math.log(delta)).sum())
    assert alarms / 500 <= delta + 2 * math.sqrt(delta * (1 - delta) / 500)


@pytest.mark.parametrize("risk", [0.02, 0.3])
def test_the_bounds_cover_the_risk_at_all_times_together(risk: float) -> None:
    delta, missed = 0.1, 0
    for seed in range(6):
        counts = streams(seed, risk, 50, 1500)
        against = math.log(2 / delta)
        above = log_evidence_above(RIGHT_OR_WRONG, counts, risk) >= against
        below = log_evidence_above(1 - RIGHT_OR_WRONG, counts, 1 - risk) >= against
        missed += int((above | below).any(axis=1).sum())
    assert missed / 300 <= delta + 2 * math.sqrt(delta * (1 - delta) / 300)


@pytest.mark.parametrize(("risk", "labels"), [(0.1, 250), (0.15, 70), (0.3, 15)])
def test_a_broken_promise_is_found(risk: float, labels: int) -> None:
    counts = streams(0, risk, 200, 1500)
    alarmed = log_evidence_above(RIGHT_OR_WRONG, counts, 0.05) >= math.log(10)
    assert alarmed.any(axis=1).mean() > 0.99
    assert np.median(alarmed.argmax(axis=1) + 1) <= labels


def test_labels_picked_at_known_rates_give_the_risk_of_all_replies() -> None:
    # Doubtful replies are wrong more often, and labelled more often.
    covered, shares = 0, []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        monitor = RiskMonitor(0.5, 0.1, least_rate=0.2)
        for doubtful, luck, picked in zip(
            rng.random(600) < 0.3, rng.random(600), rng.random(600), strict=True
        ):
            rate = 0.8 if doubtful else 0.2
            if picked < rate:
                monitor.observe(bool(luck < (0.4 if doubtful else 0.05)), rate=rate)
            else:
                monitor.observe(None, rate=rate)
        found = monitor.estimate
        assert found.value is not None
        assert found.low is not None
        assert found.high is not None
        shares.append(found.value)
        covered += found.low <= 0.155 <= found.high
        assert (found.n, monitor.replies) == (600, 600)
        assert monitor.labels < 600
    assert np.mean(shares) == pytest.approx(0.155, abs=0.01)
    assert covered >= 36


def test_an_alarm_stays_whatever_comes_after() -> None:
    monitor = RiskMonitor(0.1, 0.1)
    for wrong in [True] * 10 + [False] * 500:
        monitor.observe(wrong)
    assert monitor.alarm
    assert monitor.alarmed_at is not None
    assert monitor.alarmed_at <= 10
    assert monitor.log_evidence < 0


def test_labels_and_rates_that_cannot_be_are_refused_and_leave_no_trace() -> None:
    monitor = RiskMonitor(0.1, 0.1, least_rate=0.5)
    before = monitor.counts.copy(), monitor.labels
    for wrong, rate in ((None, 1.0), (True, 0.4), (True, 1.1), (True, math.nan), (False, True)):
        with pytest.raises(InputError):
            monitor.observe(wrong, rate=rate)
    assert (monitor.counts, monitor.labels) == before
