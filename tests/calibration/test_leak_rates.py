"""False abstention at a leak budget, calibration error, and bands of cascades, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.calibration import ReliabilityDiagram, fit_cascade_bands
from knowgate.calibration.selective_metrics import SelectiveCurve
from knowgate.calibration.statistics import binomial_p_value

_SCORES = st.lists(st.integers(0, 8).map(float), min_size=1, max_size=25)
_NEGATIVES = [float(n) for n in range(20)]


@pytest.mark.parametrize(
    ("leak", "expected"),
    [
        (0.0, 0.75),  # above 19: only 20 passes
        (0.05, 0.5),  # one of twenty may pass, so above 18: 18.5 passes as well
        (0.099, 0.5),  # still one, not two
        (0.10, 0.25),  # above 17, where 17.5 passes too
        (1.0, 0.0),
    ],
)
def test_false_abstention_by_hand(leak: float, expected: float) -> None:
    assert SelectiveCurve.false_abstention([3.0, 17.5, 18.5, 20.0], _NEGATIVES, leak) == expected


@settings(derandomize=True, deadline=None)
@given(_SCORES, _SCORES, st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.5, 1.0]))
def test_false_abstention_is_one_minus_the_best_coverage_within_the_leak(
    positives: list[float], negatives: list[float], leak: float
) -> None:
    within = [
        np.mean(np.array(positives) >= bar)
        for bar in {*positives, *negatives}
        if np.mean(np.array(negatives) >= bar) <= leak + 1e-9
    ]
    best = max(within, default=0.0)

    assert SelectiveCurve.false_abstention(positives, negatives, leak) == pytest.approx(1 - best)


def test_the_calibration_error_by_hand() -> None:
    # Bins {.1, .2}, {.3, .9} and {1.}: gaps |.15 - 0|, |.6 - .5| and |1 - 1|, weights 2, 2, 1.
    found = ReliabilityDiagram.expected_error(
        [0.9, 0.1, 1.0, 0.2, 0.3], [True, False, True, False, False], bins=3
    )

    assert found == pytest.approx((2 * 0.15 + 2 * 0.1) / 5)


def test_probabilities_that_come_true_as_often_as_stated_have_no_error() -> None:
    stated = [0.2] * 10 + [0.8] * 10
    came_true = [True] * 2 + [False] * 8 + [True] * 8 + [False] * 2

    for bins in (1, 2, 4, 10):
        found = ReliabilityDiagram.expected_error(stated, came_true, bins=bins)
        assert found == pytest.approx(0.0, abs=1e-12)


def test_bands_reach_as_far_as_the_errors_allow() -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=2000)
    labels = rng.uniform(size=2000) < 1 / (1 + np.exp(-15 * (scores - 0.5)))
    bands = fit_cascade_bands(scores.tolist(), labels.tolist())
    assert bands.accept is not None
    assert bands.reject is not None
    # The mean error above .562 is five per cent, and as much below .438.
    assert 0.562 < bands.accept < 0.75
    assert 0.25 < bands.reject < 0.438
    assert bands.accepted == int(np.sum(scores >= bands.accept))
    assert binomial_p_value(bands.accepted_wrongly, bands.accepted, 0.05) <= 0.1
    assert binomial_p_value(bands.rejected_wrongly, bands.rejected, 0.05) <= 0.1


def test_bands_that_would_overlap_meet_halfway() -> None:
    scores = [at / 400 for at in range(1, 400)]
    bands = fit_cascade_bands(scores, [s > 0.5 for s in scores], accept_risk=0.2, reject_risk=0.2)
    assert bands.accept is not None
    assert bands.reject is not None
    assert 0.45 < bands.reject < bands.accept < 0.55


@pytest.mark.slow
def test_the_bound_holds_as_often_as_promised() -> None:
    rng, broken = np.random.default_rng(3), 0
    for _ in range(200):
        scores = rng.uniform(size=400)
        labels = rng.uniform(size=400) < scores**0.5
        bands = fit_cascade_bands(scores.tolist(), labels.tolist(), accept_risk=0.1, delta=0.1)
        if bands.accept is not None:
            # Mean of 1 - √s over s in [accept, 1].
            accept = bands.accept
            true = 1 - (2 / 3) * (1 - accept**1.5) / (1 - accept)
            broken += true > 0.1
    assert broken <= 200 * 0.1 + 3 * math.sqrt(200 * 0.1 * 0.9)


@pytest.mark.parametrize("sides", [([math.nan], []), ([], [math.nan])])
def test_nan_is_rejected_where_the_other_kind_is_missing(
    sides: tuple[list[float], list[float]],
) -> None:
    with pytest.raises(ValueError, match="must not be NaN"):
        SelectiveCurve.false_abstention(*sides, 0.5)
