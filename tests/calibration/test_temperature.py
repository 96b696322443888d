"""Temperature and Venn–Abers against independent fits, peers, and on degenerate scores."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize_scalar
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from knowgate.calibration.calibrators import fit_temperature, fit_venn_abers
from knowgate.calibration.distributions import binomial_upper_bound, root
from knowgate.guard.routing import TemperatureCalibrator

_CASES = st.lists(
    st.tuples(
        st.one_of(st.floats(0, 1), st.sampled_from([0.0, 5e-324, 0.5, 0.9, 1 - 2**-53, 1.0])),
        st.booleans(),
    ),
    max_size=30,
)


@pytest.mark.parametrize("true_temperature", [0.25, 1.0, 3.0])
def test_it_is_the_maximum_of_the_likelihood_with_platts_targets(true_temperature: float) -> None:
    rng = np.random.default_rng(0)
    log_odds = rng.normal(0.3, 2.0, 400)
    outcomes = rng.random(400) < 1 / (1 + np.exp(-log_odds / true_temperature))
    positives = int(outcomes.sum())
    targets = np.where(outcomes, (positives + 1) / (positives + 2), 1 / (402 - positives))

    def loss(sharpness: float) -> float:
        logits = log_odds * sharpness
        return float(np.sum(np.logaddexp(0, logits) - targets * logits))

    reference = minimize_scalar(loss, bounds=(1e-3, 50), options={"xatol": 1e-10})

    found = fit_temperature((1 / (1 + np.exp(-log_odds))).tolist(), outcomes.tolist())

    assert isinstance(found, TemperatureCalibrator)
    assert found.temperature == pytest.approx(1 / reference.x, rel=1e-4)


def test_with_many_cases_it_is_scikit_learns_temperature() -> None:
    rng = np.random.default_rng(1)
    raw = rng.normal(size=(5000, 1))
    # A model fitted on clean labels is too sure of noisy ones.
    model = LogisticRegression(C=1e3).fit(raw, rng.random(5000) < 1 / (1 + np.exp(-6 * raw[:, 0])))
    outcomes = rng.random(5000) < 1 / (1 + np.exp(-2 * raw[:, 0]))
    reference = CalibratedClassifierCV(FrozenEstimator(model), method="temperature")
    reference.fit(raw, outcomes)
    stated = model.predict_proba(raw)[:, 1]

    found = fit_temperature(stated.tolist(), outcomes.tolist())

    assert isinstance(found, TemperatureCalibrator)
    assert found.temperature == pytest.approx(3.0, rel=0.15)
    for row in range(0, 5000, 250):
        expected = reference.predict_proba(raw[row : row + 1])[0, 1]
        assert found.apply(float(stated[row])) == pytest.approx(expected, abs=2e-3)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(_CASES)
def test_any_probabilities_give_a_usable_temperature_without_a_warning(
    cases: list[tuple[float, bool]],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = fit_temperature([p for p, _ in cases], [o for _, o in cases])

    assert all(0.0 <= found.apply(p) <= 1.0 for p, _ in cases)


@settings(max_examples=80, deadline=None)
@given(trials=st.integers(1, 200_000), share=st.floats(0, 1), level=st.floats(0.001, 0.4))
def test_upper_bounds_are_those_of_clopper_and_pearson(
    trials: int, share: float, level: float
) -> None:
    events = round(share * trials)
    exact = stats.beta.ppf(1 - level, events + 1, trials - events) if events < trials else 1.0
    tolerance = 1e-9 if trials <= 100_000 else 1e-4
    assert binomial_upper_bound(events, trials, level) == pytest.approx(exact, abs=tolerance)


@settings(max_examples=50, deadline=None)
@given(zero=st.floats(-50, 50), power=st.sampled_from([1, 3, 5]))
def test_roots_are_found_in_few_steps(zero: float, power: int) -> None:
    asked: list[float] = []

    def function(x: float) -> float:
        asked.append(x)
        return (zero - x) ** power

    found = root(function, -60.0, 60.0)
    assert found == pytest.approx(zero, abs=1e-4 if power > 1 else 1e-9)
    assert len(asked) < 120


def _by_definition(scores: list[float], outcomes: list[bool], score: float) -> float:
    """Two isotonic regressions, each with one case more."""
    low, high = (
        IsotonicRegression()
        .fit([*scores, score], [*map(float, outcomes), float(added)])
        .predict([score])[0]
        for added in (False, True)
    )
    return float(high / (1 - low + high))


def test_venn_abers_is_its_definition_at_scores_between_them_and_beyond() -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 40))
        scores = (rng.integers(0, 14, n) / 10).tolist()
        outcomes = [True, False, *(rng.random(n - 2) < np.asarray(scores[2:])).tolist()]
        distinct = sorted(set(scores))
        between = [(a + b) / 2 for a, b in itertools.pairwise(distinct)]

        found = fit_venn_abers(scores, outcomes)

        for score in [*distinct, *between, distinct[0] - 1, distinct[-1] + 1]:
            assert found.apply(score) == pytest.approx(
                _by_definition(scores, outcomes, score), abs=1e-12
            )


def test_venn_abers_agrees_with_the_peer() -> None:
    # venn-abers 1.5.4, VennAbers().fit(cal, y).predict_proba(test)[0][:, 1].
    scores = [(17 * i * i + 5 * i) % 101 / 100 for i in range(40)]
    outcomes = [score + 7 * i % 10 / 10 > 0.95 for i, score in enumerate(scores)]
    peer = {
        0.0: 0.090909090909,
        0.055: 0.111111111111,
        0.13: 0.166666666667,
        0.2: 0.333333333333,
        0.333: 0.495412844037,
        0.41: 0.545454545455,
        0.5: 0.72,
        0.58: 0.75,
        0.66: 0.75,
        0.75: 0.818181818182,
        0.81: 0.833333333333,
        0.905: 0.875,
        1.0: 0.941176470588,
    }

    found = fit_venn_abers(scores, outcomes)

    assert {score: found.apply(score) for score in peer} == pytest.approx(peer, abs=1e-11)
