"""Scorers compared on the same cases: values by hand, draws that are shared."""

from __future__ import annotations

import math

import numpy as np
import pytest

from knowgate.calibration import SelectiveCurve
from knowgate.calibration.selective_metrics import OperatingPoint, PairedScores

GOOD = {"a": [4.0, 3.0, 2.0, 1.0], "b": [4.0, 1.0, 2.0, 3.0]}
BAD = {"a": [2.5, 0.0, -1.0, -2.0], "b": [2.5, 2.5, 0.0, -math.inf]}
OWNERS = (["s", "t", "u", "v"], ["s", "t", "u", "v"])


def _paired(**options: int) -> PairedScores:
    return PairedScores(GOOD, BAD, OWNERS, **options)


def test_the_values_are_those_computed_by_hand() -> None:
    found = _paired()
    # a: of 16 pairs 2 and 1 lose against 2.5. b: 1 and 2 lose against both of 2.5.
    assert found.auroc("a").value == 14 / 16
    assert found.auroc("b").value == 12 / 16
    assert found.auroc_difference("a", "b").value == 2 / 16
    # One of four may pass. a: all positives above 0.0; b: 1 and 2 lie below 2.5.
    assert found.false_abstention("a", 0.25).value == 0.0
    assert found.false_abstention("b", 0.25).value == 0.5
    assert found.false_abstention_difference("b", "a", 0.25).value == 0.5
    assert found.count == 4


def test_each_draw_is_the_measure_on_the_drawn_cases() -> None:
    rng = np.random.default_rng(3)
    good, bad = rng.normal(1, 1, 9).round(1).tolist(), rng.normal(0, 1, 7).round(1).tolist()
    owners = [0, 0, 1, 2, 2, 3, 4, 4, 4], [0, 1, 1, 2, 3, 4, 4]
    found = PairedScores({"a": good}, {"a": bad}, owners, resamples=50)
    (parts,) = list(found._draws.parts())
    for weights, auroc, lost in zip(
        parts, found._aurocs["a"], found._false_abstention("a", 0.3)[1], strict=True
    ):
        drawn = [
            [x for x, owner in zip(side, own, strict=True) for _ in range(int(weights[owner]))]
            for side, own in zip((good, bad), owners, strict=True)
        ]
        right, wrong = drawn
        expected = (
            SelectiveCurve.auroc(right, wrong),
            OperatingPoint.false_abstention(right, wrong, 0.3),
        )
        assert (auroc, lost) == pytest.approx(expected)


def test_cases_of_one_cluster_are_one_piece_of_evidence() -> None:
    rng = np.random.default_rng(5)
    base = rng.normal(size=(2, 40))
    sides = [np.repeat(base[i] + 1 - i, 5).tolist() for i in (0, 1)]
    widths = []
    for owners in (np.repeat(np.arange(40), 5).tolist(), list(range(200))):
        found = PairedScores({"a": sides[0]}, {"a": sides[1]}, (owners, owners), resamples=400)
        interval = found.auroc("a")
        widths.append(interval.high - interval.low)  # type: ignore[operator]
    assert widths[0] > 1.7 * widths[1]
