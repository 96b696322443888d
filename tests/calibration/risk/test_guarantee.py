"""The promise, tested by drawing calibration sets from populations with known risks."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from knowgate.calibration import holm_adjusted
from knowgate.calibration.risk import (
    Evidence,
    RiskTarget,
    certify,
    fit_policy,
    grid_path,
)
from knowgate.calibration.risk._path import diagonal_path
from tests.calibration.risk.populations import (
    Draw,
    calibrated,
    dependent,
    distorted,
    useless,
)

DELTA = 0.1
RISKS = (0.05, 0.1, 0.2)
Population = Callable[[int, np.random.Generator], Draw]


def _failures(
    population: Population, n: int, risk: float, draws: int, *, variants: int = 1
) -> tuple[float, float]:
    """Share of draws whose certified policy breaks the bound, and mean true coverage."""
    truth = population(100_000, np.random.default_rng(1))
    broken, coverages = 0, []
    for draw in range(draws):
        sample = population(n, np.random.default_rng((draw, n)))
        policy = fit_policy(sample.records(variants=variants), risk=risk, delta=DELTA).policy
        coverage, true_risk = truth.outcome_of(policy)
        broken += true_risk > risk
        coverages.append(coverage)
    return broken / draws, float(np.mean(coverages))


def _allowed(draws: int) -> float:
    return DELTA + 2 * math.sqrt(DELTA * (1 - DELTA) / draws)


def _broken(n: int, draws: range) -> list[int]:
    """How often the certified policy breaks each of `RISKS`."""
    truth = calibrated(100_000, np.random.default_rng(1))
    broken = [0] * len(RISKS)
    for draw in draws:
        records = calibrated(n, np.random.default_rng((draw, n))).records()
        for place, risk in enumerate(RISKS):
            policy = fit_policy(records, risk=risk, delta=DELTA).policy
            broken[place] += truth.outcome_of(policy)[1] > risk
    return broken


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 300, 1000])
def test_of_a_thousand_calibrations_no_more_than_delta_break_the_bound(n: int) -> None:
    # In processes of their own: they cannot be forked from one that has run models.
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        halves = pool.map(_broken, [n, n], [range(500), range(500, 1000)])
    shares = [sum(counts) / 1000 for counts in zip(*halves, strict=True)]
    assert max(shares) <= _allowed(1000), dict(zip(RISKS, shares, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("population", [distorted, dependent, useless])
def test_the_bound_holds_whatever_the_signals_are_worth(population: Population) -> None:
    share, _ = _failures(population, 300, 0.2, 200)
    assert share <= _allowed(200)


@pytest.mark.slow
def test_variants_of_one_question_do_not_count_as_evidence_twice() -> None:
    share, _ = _failures(calibrated, 100, 0.2, 300, variants=5)
    assert share <= _allowed(300)


def test_a_given_path_is_tested_on_all_questions_and_keeps_the_bound() -> None:
    truth = distorted(100_000, np.random.default_rng(1))
    broken = 0
    for draw in range(300):
        records = distorted(200, np.random.default_rng(draw)).records()
        policy = fit_policy(records, risk=0.2, delta=DELTA, path=diagonal_path()).policy
        assert policy.guarantee is not None
        assert policy.guarantee.questions == 200
        broken += truth.outcome_of(policy)[1] > 0.2
    assert broken / 300 <= _allowed(300)


@pytest.mark.slow
@pytest.mark.parametrize("population", [calibrated, distorted])
def test_coverage_is_near_the_oracle_and_above_holm_and_bonferroni(population: Population) -> None:
    risk, n, draws = 0.2, 1000, 100
    truth = population(100_000, np.random.default_rng(1))
    levels = np.linspace(0.0, 1.0, 41)
    pairs = [truth.outcome(float(r), float(p)) for r in levels for p in levels]
    oracle = max(coverage for coverage, true_risk in pairs if true_risk <= risk)
    grid = grid_path(np.linspace(0.0, 1.0, 21).tolist(), np.linspace(0.0, 1.0, 21).tolist())
    found: dict[str, list[float]] = {"sequence": [], "holm": [], "bonferroni": []}
    for draw in range(draws):
        sample = population(n, np.random.default_rng((draw, n)))
        records = sample.records()
        policy = fit_policy(records, risk=risk, delta=DELTA).policy
        found["sequence"].append(truth.outcome_of(policy)[0])
        tested = certify(
            Evidence.of(records), grid, [RiskTarget("selective", risk)], delta=DELTA
        ).points
        p_values = [point.p_value for point in tested]
        adjusted = {
            "holm": holm_adjusted(p_values),
            "bonferroni": [p * len(p_values) for p in p_values],
        }
        for name, values in adjusted.items():
            passed = [point for point, p in zip(tested, values, strict=True) if p <= DELTA]
            best = max(passed, key=lambda point: point.let_through, default=None)
            coverage = 0.0
            if best is not None:
                coverage = truth.outcome(best.point.relevance, best.point.confidence)[0]
            found[name].append(coverage)
    means = {name: float(np.mean(values)) for name, values in found.items()}
    assert means["sequence"] >= oracle - 0.08, (means, oracle)
    assert means["sequence"] > means["holm"] >= means["bonferroni"], means
