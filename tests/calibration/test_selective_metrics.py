"""Risk-coverage curves and areas by hand, against peers, and their bounds."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid

from knowgate.calibration import SelectiveCurve

_CASES = st.lists(
    st.tuples(
        st.one_of(st.floats(allow_nan=False), st.sampled_from([0.0, 0.5, 1.0])), st.booleans()
    ),
    min_size=1,
    max_size=40,
)


_PEER_CONFIDENCE = [0.5 + ((37 * i * i + 11 * i) % 499 + 0.5) / 1000 for i in range(60)]


_PEER_WRONG = [(0.6180339887498949 * i) % 1 > c - 0.1 for i, c in enumerate(_PEER_CONFIDENCE)]


def test_a_curve_by_hand_accepts_ties_together() -> None:
    found = SelectiveCurve.of([0.5, 0.9, 0.1, 0.5], [True, False, True, False])

    assert found == SelectiveCurve((0.9, 0.5, 0.1), (0.25, 0.75, 1.0), (0.0, 1 / 3, 0.5), 4)


def test_areas_by_hand() -> None:
    # Risks after 1 … 4 cases: 0, 1/2, 1/3, 2/4; the best order gives 0, 0, 1/3, 2/4.
    confidence, wrong = [0.9, 0.8, 0.7, 0.1], [False, True, False, True]

    assert SelectiveCurve.aurc(confidence, wrong) == pytest.approx((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert SelectiveCurve.excess_aurc(confidence, wrong) == pytest.approx(1 / 8)
    # Generalised risks 0, 0, 1/4, 1/4, 2/4 at coverages 0, 1/4, …: trapezoids.
    assert SelectiveCurve.augrc(confidence, wrong) == pytest.approx((0 + 1 / 8 + 1 / 4 + 3 / 8) / 4)


def test_ties_count_as_the_mean_over_all_their_orders() -> None:
    confidence, wrong = [0.9, 0.5, 0.5, 0.5, 0.1], [False, True, False, False, True]
    orders = [
        ([0.9, 0.53, 0.52, 0.51, 0.1], [False, *middle, True])
        for middle in itertools.permutations(wrong[1:4])
    ]

    for measure in (SelectiveCurve.aurc, SelectiveCurve.augrc):
        values = [measure(c, w) for c, w in orders]
        mean = sum(v for v in values if v is not None) / len(values)
        assert measure(confidence, wrong) == pytest.approx(mean)


def test_the_curve_and_areas_agree_with_the_peer() -> None:
    # torch-uncertainty 0.13.0: AURC, AUGRC and CovAtxRisk of risk_coverage.py. The peer takes
    # trapezoids from a coverage of 1/n on and stretches them to a width of 1.
    curve = SelectiveCurve.of(_PEER_CONFIDENCE, _PEER_WRONG)
    coverages, risks = np.asarray(curve.coverages), np.asarray(curve.risks)
    width = 1 - 1 / curve.n

    assert trapezoid(risks, coverages) / width == pytest.approx(0.24927414861269495, rel=1e-6)
    assert trapezoid(risks * coverages, coverages) / width == pytest.approx(
        0.13389830548047787, rel=1e-6
    )
    found, general = (
        SelectiveCurve.aurc(_PEER_CONFIDENCE, _PEER_WRONG),
        SelectiveCurve.augrc(_PEER_CONFIDENCE, _PEER_WRONG),
    )
    assert found == pytest.approx(0.24927414861269495, abs=0.5 / curve.n)
    assert general == pytest.approx(
        0.13389830548047787 * width + risks[0] / curve.n**2 / 2, rel=1e-6
    )
    assert SelectiveCurve.coverage_at_risk(_PEER_CONFIDENCE, _PEER_WRONG, 0.1) is None
    assert SelectiveCurve.coverage_at_risk(_PEER_CONFIDENCE, _PEER_WRONG, 0.25) == pytest.approx(
        44 / 60
    )
    assert SelectiveCurve.coverage_at_risk(_PEER_CONFIDENCE, _PEER_WRONG, 0.3) == pytest.approx(
        48 / 60
    )


@settings(derandomize=True, deadline=None, max_examples=20)
@given(_CASES, st.randoms(use_true_random=False))
def test_areas_stay_in_their_bounds_and_are_blind_to_order(
    cases: list[tuple[float, bool]], random: Random
) -> None:
    shuffled = [*cases]
    random.shuffle(shuffled)
    confidence, wrong = [c for c, _ in cases], [w for _, w in cases]
    rate = sum(wrong) / len(wrong)

    area, excess, general = (
        m(confidence, wrong)
        for m in (SelectiveCurve.aurc, SelectiveCurve.excess_aurc, SelectiveCurve.augrc)
    )

    assert area is not None
    assert excess is not None
    assert general is not None
    assert 0.0 <= excess <= area <= 1.0 + 1e-12
    assert 0.0 <= general <= area + 1e-12
    assert rate**2 / 2 - 1e-12 <= general <= rate - rate**2 / 2 + 1e-12
    for measure, value in (
        (SelectiveCurve.aurc, area),
        (SelectiveCurve.excess_aurc, excess),
        (SelectiveCurve.augrc, general),
    ):
        assert measure([c for c, _ in shuffled], [w for _, w in shuffled]) == pytest.approx(
            value, abs=1e-12
        )


@settings(derandomize=True, deadline=None, max_examples=20)
@given(_CASES, st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]))
def test_coverage_at_risk_is_the_best_threshold_of_all(
    cases: list[tuple[float, bool]], risk: float
) -> None:
    shares = []
    for threshold, _ in cases:
        accepted = [w for c, w in cases if c >= threshold]
        if sum(accepted) / len(accepted) <= risk:
            shares.append(len(accepted) / len(cases))

    found = SelectiveCurve.coverage_at_risk([c for c, _ in cases], [w for _, w in cases], risk)

    assert found == max(shares, default=None)
