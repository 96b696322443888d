"""The temperature against independent fits, and on degenerate probabilities."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from knowgate.calibration.calibrators import fit_temperature
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
