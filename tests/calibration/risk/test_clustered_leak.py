"""The certificate from each passage's share of questions: what it promises, by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Leak, fit_policy
from knowgate.calibration.risk.leak import leak_p_values

Floats = NDArray[np.float64]
DRAWS, DELTA = 1000, 0.1
LIMIT = DELTA + 2 * math.sqrt(DELTA * (1 - DELTA) / DRAWS)


def certified(shares: Floats, risk: float, size: int = 4) -> NDArray[np.bool_]:
    """Of each draw, whether a threshold at which these shares pass is certified."""
    sizes = np.full(shares.shape[1], float(size))
    return np.asarray(leak_p_values(sizes, risk, DELTA)(shares) <= DELTA)


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

    assert certified(population(passages, risk, rng), risk, size=40).mean() <= LIMIT


@settings(derandomize=True, deadline=None, max_examples=15)
@given(st.lists(st.integers(1, 6), min_size=12, max_size=40), st.data())
def test_a_higher_threshold_never_has_a_larger_p_value(
    sizes: list[int], data: st.DataObject
) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    scores = [rng.normal(rng.normal(), 1.0, size) for size in sizes]
    thresholds = np.sort(np.concatenate(scores))[::-1]
    shares = np.asarray([[(row >= t).mean() for row in scores] for t in thresholds])

    p_values = leak_p_values(np.asarray(sizes, dtype=np.float64), 0.2, DELTA)(shares)

    assert (np.diff(p_values) >= 0.0).all()


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
    p_values = leak_p_values(sizes.astype(np.float64), 0.2, DELTA)(shares)
    laxest = int(np.flatnonzero(p_values <= DELTA)[-1])
    assert fit.policy.guarantee is not None
    assert fit.policy.guarantee.errors == laxest
    tested = [point.p_value for point in fit.certificate.points]
    assert (np.diff(tested) >= 0.0).all()
    assert fit.certificate.chosen == len(tested) - 2
