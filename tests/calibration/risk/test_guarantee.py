"""The promise, tested by drawing calibration sets from populations with known risks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

from knowgate.calibration.risk import RiskTarget, certify, fit_policy
from knowgate.calibration.risk.certificate import Evidence, binomial_p_values, let_through_wrongly
from knowgate.calibration.risk.learned_path import forecast_path, from_surest
from knowgate.calibration.risk.risks import LEARN_PATH, PathPoint, learning_share
from knowgate.calibration.statistics import holm_adjusted, questions_needed
from tests.calibration.risk.populations import (
    Draw,
    calibrated,
    dependent,
    distorted,
    highest_wrong,
    useless,
)

DELTA = 0.1
_PATHS = 10
Population = Callable[[int, np.random.Generator], Draw]


def _allowed(draws: int) -> float:
    return DELTA + 2 * math.sqrt(DELTA * (1 - DELTA) / draws)


def _broken(
    population: Population, n: int, risk: float, path: Sequence[PathPoint], *, draws: int
) -> int:
    """Of so many calibration sets, how many certify a point of `path` that breaks the bound.

    All sets are drawn and routed at once; the test along the path is that of `certify`.
    """
    sample = population(n * draws, np.random.default_rng([draws, n, round(100 * risk)]))
    nothing = np.full(n * draws, math.nan)
    evidence = Evidence(
        sample.relevance, sample.confidence, nothing, sample.context_right, sample.closed_book_right
    )
    codes = evidence.route_codes(path)
    wrong = let_through_wrongly(evidence, codes).reshape(len(path), draws, n).sum(axis=2)
    through = (codes != 0).reshape(len(path), draws, n).sum(axis=2)
    p_values = binomial_p_values(wrong.astype(np.float64), through, risk)
    hopeless = np.logical_and.accumulate(through <= questions_needed(risk, DELTA), axis=0)
    passed = np.logical_and.accumulate(hopeless | (p_values <= DELTA), axis=0) & ~hopeless
    truth = _truth(population)
    last = len(path) - 1 - np.argmax(passed[::-1], axis=0)
    chosen, times = np.unique(last[passed.any(axis=0)], return_counts=True)
    found = [truth.outcome(path[i].relevance, path[i].confidence)[1] for i in chosen]
    return sum(int(n) for n, true_risk in zip(times, found, strict=True) if true_risk > risk)


@cache
def _truth(population: Population) -> Draw:
    """So many questions that shares among them are risks."""
    return population(100_000, np.random.default_rng(1))


def _share_broken(population: Population, n: int, risk: float, *, draws: int) -> float:
    """Share of calibrations that break the bound: paths learned in turn, tested many times."""
    learned = round(n * learning_share(LEARN_PATH, n))
    learning, testing = max(1, learned), n - learned
    broken = 0
    for number in range(_PATHS):
        records = population(learning, np.random.default_rng((number, n))).records()
        path = from_surest(forecast_path(records, risk, delta=DELTA, questions=testing))
        broken += _broken(population, testing, risk, path, draws=draws // _PATHS)
    return broken / draws


@pytest.mark.slow
@pytest.mark.parametrize(("n", "risk"), [(100, 0.2), (300, 0.1), (1000, 0.05)])
def test_of_a_thousand_calibrations_no_more_than_delta_break_the_bound(n: int, risk: float) -> None:
    assert _share_broken(calibrated, n, risk, draws=1000) <= _allowed(1000)


@pytest.mark.slow
@pytest.mark.parametrize("population", [distorted, dependent, useless])
def test_the_bound_holds_whatever_the_signals_are_worth(population: Population) -> None:
    assert _share_broken(population, 300, 0.2, draws=1000) <= _allowed(1000)


@pytest.mark.slow
def test_the_bound_holds_where_the_highest_scores_are_wrong() -> None:
    assert _share_broken(highest_wrong, 300, 0.1, draws=1000) <= _allowed(1000)


@pytest.mark.slow
def test_whole_fits_keep_the_bound_and_variants_do_not_count_as_evidence_twice() -> None:
    truth = _truth(calibrated)
    broken = 0
    for draw in range(60):
        records = calibrated(100, np.random.default_rng((draw, 100))).records(variants=5)
        policy = fit_policy(records, risk=0.2, delta=DELTA).policy
        broken += truth.outcome_of(policy)[1] > 0.2
    assert broken / 60 <= _allowed(60)


@pytest.mark.slow
def test_coverage_is_near_the_oracle_and_above_holm_and_bonferroni() -> None:
    population, risk, n, draws = distorted, 0.2, 1000, 15
    truth = _truth(population)
    coverages, true_risks = truth.outcomes(np.linspace(0.0, 1.0, 41))
    oracle = float(coverages[true_risks <= risk].max())
    grid = PathPoint.grid(np.linspace(0.0, 1.0, 21).tolist(), np.linspace(0.0, 1.0, 21).tolist())
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
