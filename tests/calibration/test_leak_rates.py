"""False abstention at a leak budget and calibration error, against values computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.calibration import ReliabilityDiagram
from knowgate.calibration.selective_metrics import OperatingPoint

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
    assert OperatingPoint.false_abstention([3.0, 17.5, 18.5, 20.0], _NEGATIVES, leak) == expected


@settings(derandomize=True, deadline=None)
@given(_SCORES, _SCORES, st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.5, 1.0]))
def test_false_abstention_is_one_minus_the_best_coverage_within_the_leak(
    positives: list[float], negatives: list[float], leak: float
) -> None:
    within = [p for p in OperatingPoint.curve(positives, negatives) if p.risk <= leak + 1e-9]
    best = max((point.coverage for point in within), default=0.0)

    assert OperatingPoint.false_abstention(positives, negatives, leak) == pytest.approx(1 - best)


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
