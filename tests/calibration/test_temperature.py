"""The temperature against independent fits, and on degenerate probabilities."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from knowgate.calibration._calibrators import fit_temperature
from knowgate.guard.policy import IdentityCalibrator, TemperatureCalibrator

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


def test_certain_probabilities_have_no_say() -> None:
    stated, outcomes = [0.9, 0.8, 0.3, 0.7], [True, True, False, False]

    plain = fit_temperature([*stated, 0.99, 0.01], [*outcomes, True, False])
    certain = fit_temperature(
        [*stated, 0.99, 0.01, 1.0, 0.0], [*outcomes, True, False, True, False]
    )

    assert isinstance(plain, TemperatureCalibrator)
    assert isinstance(certain, TemperatureCalibrator)
    # Only the counts behind the targets differ: 3 of each kind or 4.
    assert certain.temperature == pytest.approx(plain.temperature, rel=0.2)
    assert certain.apply(1.0) == 1.0


@pytest.mark.parametrize(
    ("stated", "outcomes"),
    [
        ([], []),
        ([0.9, 0.8], [True, True]),
        ([0.9, 0.8], [False, False]),
        ([0.5, 0.5], [True, False]),
        ([1.0, 0.0], [True, False]),
        ([0.9] * 5 + [0.1] * 5, [False] * 5 + [True] * 5),
        ([0.99] * 10 + [0.01] * 10, ([True] * 8 + [False] * 2) * 2),
    ],
    ids=["none", "no -", "no +", "one half", "certain", "turned round", "unrelated"],
)
def test_without_a_rising_curve_the_identity_is_returned(
    stated: list[float], outcomes: list[bool]
) -> None:
    assert fit_temperature(stated, outcomes) == IdentityCalibrator()


@settings(derandomize=True, deadline=None, max_examples=30)
@given(_CASES)
def test_any_probabilities_give_a_usable_temperature_without_a_warning(
    cases: list[tuple[float, bool]],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = fit_temperature([p for p, _ in cases], [o for _, o in cases])

    assert all(0.0 <= found.apply(p) <= 1.0 for p, _ in cases)
