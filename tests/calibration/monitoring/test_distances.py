"""PSI and KS: by hand, against scipy, and in simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import ks_2samp

from knowgate.calibration.monitoring._distance import compare, compare_with_mixture
from knowgate.guard.artefacts import Histogram
from tests.calibration.monitoring.populations import EDGES, histogram
from tests.support.results import within


def two_bins(first: int, second: int) -> Histogram:
    return Histogram(edges=(0.0, 0.5, 1.0), counts=(first, second))


def test_the_index_by_hand() -> None:
    # Shares with half a question added: 60.5/101 and 40.5/101, the other way round live.
    by_hand = 2 * (60.5 - 40.5) / 101 * math.log(60.5 / 40.5)

    found = compare(two_bins(60, 40), [40, 60])[0]

    assert found.value == pytest.approx(by_hand)
    assert (found.n_calibration, found.n_live) == (100, 100)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low < by_hand < found.high
    assert found.p_value is not None
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
    assert found.low == 0.0


def test_the_gap_by_hand_and_its_band() -> None:
    # Cumulative shares .6 and .4 at the inner edge; two bands at 2.5 % each.
    found = compare(two_bins(60, 40), [160, 240])[1]

    half = sum(math.sqrt(math.log(2 / 0.025) / (2 * n)) for n in (100, 400))
    assert found.value == pytest.approx(0.2)
    assert found.low == max(0.0, 0.2 - half) == 0.0
    assert found.high == pytest.approx(0.2 + half)


def test_the_gap_is_scipys_on_values_at_bin_resolution() -> None:
    rng = np.random.default_rng(1)
    for b in (2.0, 3.0):
        first, second = rng.beta(2, 2, 300), rng.beta(2, b, 500)
        reference = ks_2samp(np.digitize(first, EDGES), np.digitize(second, EDGES), method="asymp")

        found = compare(histogram(first), histogram(second).counts)[1]

        assert found.value == pytest.approx(reference.statistic)
        assert found.value is not None
        assert found.p_value is not None
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
            alarms[i] += (distance.p_value or 0) <= 0.05

    assert np.all(alarms / draws <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / draws))
    assert np.all(alarms > 0)


@pytest.mark.slow
def test_a_mixture_of_both_calibration_kinds_is_no_drift_and_its_share_is_found() -> None:
    draws, share = 100, 0.7
    alarms, covered = 0, 0
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        first, second = histogram(rng.beta(5, 2, 300)), histogram(rng.beta(2, 4, 300))
        live = np.where(rng.random(500) < share, rng.beta(5, 2, 500), rng.beta(2, 4, 500))

        counts = histogram(live).counts
        psi, _, found = compare_with_mixture(first, second, counts, draws=99, seed=seed)

        alarms += (psi.p_value or 0) <= 0.05
        covered += within(found, share)
    assert alarms / draws <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / draws)
    assert covered / draws >= 0.9


def test_the_interval_of_the_share_by_hand() -> None:
    _, _, found = compare_with_mixture(two_bins(300, 100), two_bins(100, 300), (200, 200), draws=9)

    # Middles .25 and .75: means .375, .625 and .5, each side off by √(.25² · .75 / 399 ·…): the
    # calibration means by .216506 / √399 = .0108388, the live one by .25 / √399 = .0125156. At the
    # ends |.5 − .625 + .25 x| = 1.965927 · √(.0108388² + .0125156²) = .0325498, x = .5 ± .1302.
    assert (found.low, found.high) == pytest.approx((0.37, 0.63), abs=0.0005)


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("heavy", [False, True])
def test_the_interval_of_the_share_covers_it_near_the_end_and_with_heavy_tails(
    share: float, heavy: bool
) -> None:
    def drawn(rng: np.random.Generator, n: int, middle: float) -> NDArray[np.float64]:
        raw = middle + (rng.standard_t(1.2, n) if heavy else rng.normal(size=n))
        return np.asarray(expit(2 * (raw - 1)))

    draws, covered = 50, 0
    for seed in range(draws):
        rng = np.random.default_rng([seed, 40])
        first, second = histogram(drawn(rng, 40, 2.0)), histogram(drawn(rng, 40, 0.0))
        answered = rng.binomial(100, share)
        live = np.concatenate([drawn(rng, answered, 2.0), drawn(rng, 100 - answered, 0.0)])

        found = compare_with_mixture(first, second, histogram(live).counts, draws=3)[2]

        covered += within(found, share)

    # It was .79 and .83 at a share of .9.
    assert covered >= 45
