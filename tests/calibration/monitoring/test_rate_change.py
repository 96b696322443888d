"""A changed rate: rarely a false alarm, soon a true one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from knowgate.calibration.monitoring._streams import RateChangeDetector, log_factors


def run_lengths(
    events: NDArray[np.bool_],
    factors: list[tuple[NDArray[np.float64], NDArray[np.float64]]],
    run_length: float,
) -> NDArray[np.int64]:
    """Steps to the first alarm of each stream, the whole length where there is none.

    Args:
        events: shape (streams, steps).
        factors: one pair for all streams, or one per stream.
    """
    no, yes = (np.stack([pair[i] for pair in factors]) for i in range(2))
    capital = np.zeros((len(events), *no.shape[1:]))
    stopped = np.full(len(events), events.shape[1])
    for step in range(events.shape[1]):
        happened = events[:, step][:, None, None]
        capital = np.minimum(np.maximum(capital, 0) + np.where(happened, yes, no), 600)
        enough = np.exp(capital).mean(axis=(1, 2)) >= run_length
        stopped = np.where(enough & (stopped == events.shape[1]), step + 1, stopped)
    return stopped


def factors(low: float, high: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return log_factors(low, high, False), log_factors(low, high, True)


def test_no_bet_wins_on_average_while_the_rate_is_in_its_range() -> None:
    no, yes = (np.exp(part) for part in factors(0.2, 0.4))
    for rate in (0.2, 0.3, 0.4):
        assert np.all(rate * yes + (1 - rate) * no <= 1 + 1e-12)
    assert np.allclose(0.4 * yes[0] + 0.6 * no[0], 1)
    assert np.allclose(0.2 * yes[1] + 0.8 * no[1], 1)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_false_alarms_are_as_far_apart_as_promised(rate: float) -> None:
    events = np.random.default_rng(0).random((150, 2500)) < rate
    # Streams without an alarm count as if they had one at the end, so this is a lower bound.
    assert run_lengths(events, [factors(rate, rate)], 500).mean() >= 500


def test_an_unsure_baseline_is_taken_into_account() -> None:
    rng = np.random.default_rng(1)
    rate, detectors = 0.3, []
    for _ in range(150):
        found = RateChangeDetector.from_counts(int(rng.binomial(60, rate)), 60)
        detectors.append(factors(found.low, found.high))
    events = rng.random((150, 2500)) < rate

    careful = run_lengths(events, detectors, 500)
    rng = np.random.default_rng(1)
    shares = [float(np.clip(rng.binomial(60, rate) / 60, 0.01, 0.99)) for _ in range(150)]
    careless = run_lengths(events, [factors(share, share) for share in shares], 500)

    # Nineteen baselines of twenty hold the true rate.
    assert careful.mean() >= 0.95 * 500
    assert (careful <= 250).mean() < 0.1 < (careless <= 250).mean()


@pytest.mark.parametrize(
    ("before", "after", "direction", "delay"),
    [(0.1, 0.2, "up", 350), (0.3, 0.6, "up", 90), (0.3, 0.15, "down", 270)],
)
def test_a_change_is_found_soon_and_dated(
    before: float, after: float, direction: str, delay: int
) -> None:
    delays, dated = [], []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        detector = RateChangeDetector(before, before)
        for step in range(2500):
            detector.observe(bool(rng.random() < (before if step < 300 else after)))
            if detector.alarm is not None:
                break
        assert detector.alarm is not None
        assert detector.alarm.direction == direction
        assert detector.alarm.seen_at == detector.steps
        delays.append(detector.alarm.seen_at - 300)
        dated.append(abs(detector.alarm.began_after - 300))
    assert 0 < np.median(delays) <= delay
    assert np.median(dated) <= 60


def test_the_detector_takes_the_steps_of_the_simulation() -> None:
    events = np.random.default_rng(5).random((3, 3000)) < 0.16
    stopped = run_lengths(events, [factors(0.1, 0.1)], 2000)
    for row, expected in zip(events, stopped, strict=True):
        detector = RateChangeDetector(0.1, 0.1, run_length=2000)
        for event in row:
            detector.observe(bool(event))
        assert detector.alarm is not None
        assert detector.alarm.seen_at == expected


def test_the_interval_of_a_baseline_by_hand() -> None:
    # Clopper–Pearson for none of n: 1 - (1 - c)/2 to the power 1/n is the upper end.
    found = RateChangeDetector.from_counts(0, 50)
    assert found.low == 0.0
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 50))
    found = RateChangeDetector.from_counts(50, 50)
    assert found.low == pytest.approx(0.025 ** (1 / 50))
    assert found.high == 1.0
