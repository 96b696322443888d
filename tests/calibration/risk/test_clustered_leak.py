"""The test that counts all questions of a passage: what it promises, by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, norm

from knowgate.calibration import CalibrationRecord
from knowgate.calibration._statistics import binomial_p_value
from knowgate.calibration.risk import Leak, fit_policy
from knowgate.calibration.risk._tests import subsample_e_values, subsample_p_values

Floats = NDArray[np.float64]
DRAWS, DELTA = 1000, 0.1
LIMIT = DELTA + 2 * math.sqrt(DELTA * (1 - DELTA) / DRAWS)


def certified(shares: Floats, risk: float) -> NDArray[np.bool_]:
    """Of each draw, whether a threshold at which these shares pass is certified."""
    e_values = subsample_e_values(shares.shape[1], risk, DELTA)
    return np.asarray(subsample_p_values(shares, e_values) <= DELTA)


def correlated(passages: int, rate: float, rng: np.random.Generator, *, rho: float) -> Floats:
    """Four questions per passage, whose latent scores have correlation `rho`."""
    shared = rng.normal(size=(DRAWS, passages, 1))
    own = rng.normal(size=(DRAWS, passages, 4))
    scores = math.sqrt(rho) * shared + math.sqrt(1 - rho) * own
    return np.asarray((scores >= norm.isf(rate)).mean(axis=2), dtype=np.float64)


def unequal(passages: int, rate: float, rng: np.random.Generator) -> Floats:
    """From 1 to 40 questions per passage, and the more of them the more of them pass."""
    sizes = rng.geometric(0.15, size=(DRAWS, passages)).clip(1, 40)
    leaning = np.where(sizes > 6, 1.6, 0.6)
    mean = 0.6 + 1.0 * float(
        (np.random.default_rng(0).geometric(0.15, 10**6).clip(1, 40) > 6).mean()
    )
    rates = rate * leaning / mean
    return np.asarray(rng.binomial(sizes, rates) / sizes)


def all_or_nothing(passages: int, rate: float, rng: np.random.Generator) -> Floats:
    """Of each passage all questions pass, or none."""
    return (rng.random((DRAWS, passages)) < rate).astype(np.float64)


def half_or_nothing(passages: int, rate: float, rng: np.random.Generator) -> Floats:
    """Half of the questions of some passages pass."""
    return (rng.random((DRAWS, passages)) < 2 * rate) / 2


def few_bad_passages(passages: int, rate: float, rng: np.random.Generator) -> Floats:
    """A little passes everywhere, and everything on rare passages."""
    rare = rng.random((DRAWS, passages)) < 0.8 * rate
    return np.where(rare, 1.0, 0.2 * rate / (1 - 0.8 * rate))


Population = Callable[[int, float, np.random.Generator], Floats]


@pytest.mark.parametrize("risk", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("passages", [8, 15, 30, 75])
@pytest.mark.parametrize("rho", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_whatever_the_correlation_a_bad_threshold_is_certified_no_more_often_than_delta(
    rho: float, passages: int, risk: float
) -> None:
    rng = np.random.default_rng([passages, round(100 * risk), round(100 * rho)])

    assert certified(correlated(passages, risk, rng, rho=rho), risk).mean() <= LIMIT


@pytest.mark.parametrize("risk", [0.1, 0.2])
@pytest.mark.parametrize("passages", [30, 75])
@pytest.mark.parametrize("population", [unequal, all_or_nothing, half_or_nothing, few_bad_passages])
def test_unkind_passages_break_the_promise_no_more_often(
    population: Population, passages: int, risk: float
) -> None:
    rng = np.random.default_rng([passages, round(100 * risk)])

    assert certified(population(passages, risk, rng), risk).mean() <= LIMIT


def test_counting_each_question_breaks_the_promise_too_often() -> None:
    shares = correlated(40, 0.1, np.random.default_rng(0), rho=0.75)
    errors = shares.sum(axis=1) * 4

    assert (binom.cdf(errors, 160, 0.1) <= DELTA).mean() > LIMIT
    assert certified(shares, 0.1).mean() <= LIMIT


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 300), st.floats(0.01, 0.6), st.floats(0.01, 0.4))
def test_the_e_values_have_a_mean_of_at_most_one_from_the_bound_on(
    passages: int, risk: float, delta: float
) -> None:
    e_values = subsample_e_values(passages, risk, delta)

    assert (np.diff(e_values) <= 0).all()
    for rate in (risk, min(1.0, risk * 1.2), min(1.0, risk * 2)):
        chances = binom.pmf(np.arange(len(e_values)), passages, rate)
        assert chances @ e_values <= 1.0 + 1e-9
    assert len(e_values) == 0 or e_values[0] >= (1.0 - 1e-9) / delta
    assert (len(e_values) == 0) == (binomial_p_value(0, passages, risk) > delta)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=12, max_size=40), st.data())
def test_more_that_passes_never_makes_the_evidence_stronger(
    shares: list[float], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(shares) - 1))
    more = [min(1.0, s + 0.25) if i == place else s for i, s in enumerate(shares)]

    few, many = subsample_p_values(
        np.asarray([shares, more]), subsample_e_values(len(shares), 0.2, DELTA)
    )

    assert few <= many + 1e-12


def test_the_average_over_all_draws_of_one_question_per_passage_is_exact() -> None:
    rng = np.random.default_rng(3)
    passed = rng.random((25, 4)) < 0.05
    e_values = subsample_e_values(25, 0.2, DELTA)

    drawn = passed[np.arange(25), rng.integers(0, 4, size=(200_000, 25))].sum(axis=1)
    payoff = np.where(drawn < len(e_values), e_values[np.minimum(drawn, len(e_values) - 1)], 0.0)
    [p_value] = subsample_p_values(passed.mean(axis=1)[None, :], e_values)

    assert 1.0 / p_value == pytest.approx(payoff.mean(), rel=0.02)


@pytest.mark.parametrize("seed", range(6))
def test_the_policy_has_the_laxest_threshold_that_the_test_certifies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, 30)
    scores = [rng.normal(rng.normal(0, 0.7), 1.0, size) for size in sizes]
    records = [
        record
        for passage, row in enumerate(scores)
        for place, score in enumerate(row.tolist())
        for record in CalibrationRecord.leave_one_out_pair(
            f"{passage}-{place}", None, score, group=f"p{passage}"
        )
    ]

    fit = fit_policy(records, Leak(0.2), delta=DELTA)

    flat = np.sort(np.concatenate(scores))[::-1]
    shares = np.asarray([[(row > limit).mean() for row in scores] for limit in flat])
    laxest = int(np.flatnonzero(certified(shares, 0.2))[-1])
    assert fit.policy.guarantee is not None
    assert fit.policy.guarantee.errors == laxest
    p_values = [point.p_value for point in fit.certificate.points]
    assert (np.diff(p_values) >= -1e-12).all()
    assert fit.certificate.chosen == len(p_values) - 2
