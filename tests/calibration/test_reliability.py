"""Reliability, calibration errors, Brier score and bootstrap intervals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from knowgate.calibration import Interval, ReliabilityDiagram
from knowgate.calibration.statistics import Statistic
from tests.support.results import within

_CASES = st.lists(
    st.tuples(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), st.booleans()),
    min_size=1,
    max_size=60,
)
_PEER_STATED = [((29 * i * i + 11 * i + 3) % 997 + 0.5) / 997 for i in range(300)]
_PEER_OUTCOMES = [p**1.6 + (0.6180339887498949 * i) % 1 > 1 for i, p in enumerate(_PEER_STATED)]


def test_bins_of_equal_mass_by_hand() -> None:
    found = ReliabilityDiagram.of(
        [0.9, 0.1, 0.3, 0.6, 0.2, 0.8], [True, False, True, False, False, True], bins=3
    )

    assert [(b.low, b.high, b.n) for b in found.bins] == [
        (0.1, 0.2, 2),
        (0.3, 0.6, 2),
        (0.8, 0.9, 2),
    ]
    assert [b.mean_probability for b in found.bins] == pytest.approx([0.15, 0.45, 0.85])
    assert [b.share for b in found.bins] == [Interval.wilson(k, 2) for k in (0, 1, 2)]
    assert found.n == 6


@settings(derandomize=True, deadline=None, max_examples=20)
@given(_CASES, st.integers(1, 12))
def test_every_case_lies_in_one_bin_and_equal_probabilities_in_the_same(
    cases: list[tuple[float, bool]], bins: int
) -> None:
    stated = [p for p, _ in cases]

    found = ReliabilityDiagram.of(stated, [o for _, o in cases], bins=bins).bins

    assert sum(b.n for b in found) == len(cases)
    assert len(found) <= bins
    assert all(b.n == sum(b.low <= p <= b.high for p in stated) for b in found)
    assert all(b.low <= b.mean_probability <= b.high for b in found)
    assert all(a.high < b.low for a, b in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("bins", "digits", "peer"),
    [
        (5, 17, 0.1199119918716477),
        (10, 17, 0.1164602406481516),
        (15, 17, 0.10746394585135034),
        (20, 17, 0.1071135343185247),
        (3, 1, 0.12190367433608969),
        (10, 1, 0.12992082617470516),
        (15, 1, 0.12804687118786326),
    ],
)
def test_the_debiased_error_agrees_with_the_peer(bins: int, digits: int, peer: float) -> None:
    # uncertainty-calibration 0.1.4: lower_bound_scaling_ce(p, y, p=2, debias=True, num_bins=…);
    # get_calibration_error(p, y, p=2, debias=True) is that of 15 bins.
    stated = [round(p, digits) for p in _PEER_STATED]

    found = ReliabilityDiagram.debiased_error(stated, _PEER_OUTCOMES, bins=bins)

    assert found == pytest.approx(peer, rel=1e-9)


def test_the_debiased_error_by_hand() -> None:
    # One bin: gap .5 - .75, less .75 × .25 / 3. Two: gaps .2 and .1, the shares being 1 and 0.
    assert ReliabilityDiagram.debiased_error([0.5] * 4, [True, True, True, False]) == 0.0
    assert ReliabilityDiagram.debiased_error(
        [0.1, 0.1, 0.8, 0.8], [False, False, True, True], bins=2
    ) == pytest.approx(math.sqrt((0.01 + 0.04) / 2))


def test_the_brier_score_is_scikit_learns() -> None:
    found = ReliabilityDiagram.brier_score(_PEER_STATED, _PEER_OUTCOMES)

    assert found == pytest.approx(brier_score_loss(_PEER_OUTCOMES, _PEER_STATED), rel=1e-12)


def test_the_interval_of_a_mean_is_the_normal_one() -> None:
    values = (np.asarray(_PEER_STATED) - np.asarray(_PEER_OUTCOMES)) ** 2
    half = 1.96 * values.std(ddof=1) / math.sqrt(len(values))

    found = Interval.bootstrap(
        ReliabilityDiagram.brier_score, _PEER_STATED, _PEER_OUTCOMES, resamples=2000
    )

    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.004)
    assert found.high == pytest.approx(values.mean() + half, abs=0.004)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statistic", "least"),
    [(ReliabilityDiagram.brier_score, 0.8), (ReliabilityDiagram.debiased_error, 0.75)],
)
def test_a_ninety_percent_interval_holds_the_truth_about_that_often(
    statistic: Statistic, least: float
) -> None:
    # P(true) = p², p uniform. Brier: E[(p - p²)² + p²(1 - p²)] = 1/6;
    # calibration error: the root of E[(p - p²)²] = 1/30 (less a little for ten bins).
    truth = 1 / 6 if statistic is ReliabilityDiagram.brier_score else math.sqrt(1 / 30)
    rng = np.random.default_rng(9)
    held = 0
    for _ in range(60):
        stated = rng.random(300)
        outcomes = (rng.random(300) < stated**2).astype(np.float64)
        found = Interval.bootstrap(statistic, stated, outcomes, resamples=80, level=0.9)
        held += within(found, truth)

    assert least <= held / 60 <= 1.0
