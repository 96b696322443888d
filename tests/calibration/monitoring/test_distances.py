"""PSI and KS: by hand, against scipy, and in simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

from knowgate.calibration.monitoring._distance import compare, compare_with_mixture
from knowgate.guard.artefacts import Histogram
from tests.calibration.monitoring.populations import EDGES, histogram


def two_bins(first: int, second: int) -> Histogram:
    return Histogram(edges=(0.0, 0.5, 1.0), counts=(first, second))


def test_the_index_by_hand() -> None:
    # Shares with half a question added: 60.5/101 and 40.5/101, the other way round live.
    by_hand = 2 * (60.5 - 40.5) / 101 * math.log(60.5 / 40.5)

    found = compare(two_bins(60, 40), [40, 60])[0]

    assert found.value == pytest.approx(by_hand)
    assert found.p_value < 0.02


def test_without_drift_the_index_is_as_large_as_the_formula_says() -> None:
    rng = np.random.default_rng(0)
    n, m = 2000, 3000
    shares = np.full(10, 0.1)
    edges = tuple(i / 10 for i in range(11))
    counts = tuple(int(c) for c in rng.multinomial(n, shares))

    live = [int(c) for c in rng.multinomial(m, shares)]
    found = compare(Histogram(edges=edges, counts=counts), live)[0]

    assert found.without_drift == pytest.approx(9 * (1 / n + 1 / m), rel=0.1)


def test_the_gap_by_hand() -> None:
    # Cumulative shares .6 and .4 at the inner edge.
    assert compare(two_bins(60, 40), [160, 240])[1].value == pytest.approx(0.2)


def test_the_gap_is_scipys_on_values_at_bin_resolution() -> None:
    rng = np.random.default_rng(1)
    for b in (2.0, 3.0):
        first, second = rng.beta(2, 2, 300), rng.beta(2, b, 500)
        reference = ks_2samp(np.digitize(first, EDGES), np.digitize(second, EDGES), method="asymp")

        found = compare(histogram(first), histogram(second).counts)[1]

        assert found.value == pytest.approx(reference.statistic)
        # Ties make scipy's value conservative, and 999 draws go no lower than .001.
        assert found.p_value <= max(reference.pvalue, 0.001) + 0.03
        assert found.value <= ks_2samp(first, second).statistic + 1e-12


@pytest.mark.slow
def test_false_alarms_without_drift_are_as_rare_as_stated() -> None:
    draws = 150
    alarms = np.zeros(2)
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        first, live = histogram(rng.beta(2, 5, 150)), histogram(rng.beta(2, 5, 250)).counts
        for i, distance in enumerate(compare(first, live, draws=99, seed=seed)[:2]):
            alarms[i] += distance.p_value <= 0.05

    assert np.all(alarms / draws <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / draws))
    assert np.all(alarms > 0)


@pytest.mark.slow
def test_a_mixture_of_both_calibration_kinds_is_no_drift_and_its_share_is_found() -> None:
    draws, share = 100, 0.7
    alarms, shares = 0, []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        first, second = histogram(rng.beta(5, 2, 300)), histogram(rng.beta(2, 4, 300))
        live = np.where(rng.random(500) < share, rng.beta(5, 2, 500), rng.beta(2, 4, 500))

        counts = histogram(live).counts
        psi, _, found = compare_with_mixture(first, second, counts, draws=99, seed=seed)

        alarms += psi.p_value <= 0.05
        shares.append(found)
    assert alarms / draws <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / draws)
    assert np.mean(shares) == pytest.approx(share, abs=0.01)
