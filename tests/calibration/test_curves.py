"""The isotonic step table and the logistic curve against independent fits."""

from __future__ import annotations

import itertools
import math
import warnings
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

from knowgate.calibration.calibrators import fit_isotonic, fit_platt, fit_venn_abers
from knowgate.guard.policy import IdentityCalibrator
from knowgate.guard.routing import PlattCalibrator, StepCalibrator

_CASES = st.lists(
    st.tuples(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False),
            st.sampled_from([0.0, 0.1, 0.3, 0.5, 5e-324, 1.7e308, -1.7e308]),
        ),
        st.booleans(),
    ),
    max_size=40,
)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("digits", [1, 6])
def test_every_training_score_gets_scikit_learns_prediction(seed: int, digits: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=300).round(digits)
    outcomes = rng.random(300) < 1 / (1 + np.exp(-scores))
    reference = IsotonicRegression().fit(scores, outcomes).predict(scores)
    inside = (reference > 0.0) & (reference < 1.0)

    found = fit_isotonic(scores.tolist(), outcomes.tolist())
    stated = np.asarray([found.apply(score) for score in scores.tolist()])

    assert inside.sum() > 200
    assert stated[inside] == pytest.approx(reference[inside], abs=1e-12)
    assert (stated > 0.0).all()
    assert (stated < 1.0).all()


def test_steps_by_hand_lie_in_the_middle_of_gaps() -> None:
    # Means of the pooled blocks: 0 of 2, then 1 of 2, then 3 of 3; Laplace for the outer two.
    found = fit_isotonic(
        [1.0, 2.0, 4.0, 5.0, 7.0, 8.0, 9.0], [False, False, True, False, True, True, True]
    )

    assert found == StepCalibrator(edges=(3.0, 6.0), values=(1 / 4, 1 / 2, 4 / 5))


@pytest.mark.parametrize("fit", [fit_isotonic, fit_venn_abers])
@settings(derandomize=True, deadline=None, max_examples=20)
@given(cases=_CASES, random=st.randoms(use_true_random=False))
def test_any_finite_scores_give_a_table_blind_to_order(
    fit: Any, cases: list[tuple[float, bool]], random: Random
) -> None:
    shuffled = [*cases]
    random.shuffle(shuffled)

    found = fit_isotonic([s for s, _ in cases], [o for _, o in cases])

    assert found == fit_isotonic([s for s, _ in shuffled], [o for _, o in shuffled])
    if isinstance(found, StepCalibrator):
        assert all(0.0 < value < 1.0 for value in found.values)
        assert all(a < b for a, b in itertools.pairwise(found.values))


_ANY = st.lists(
    st.one_of(
        st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, 0.1, 0.5, 5e-324])
    ),
    max_size=30,
)


def test_it_is_the_maximum_of_platts_smoothed_likelihood() -> None:
    rng = np.random.default_rng(0)
    positives, negatives = rng.normal(0.7, 0.15, 80), rng.normal(0.4, 0.2, 50)
    scores = np.concatenate([positives, negatives])
    targets = np.concatenate([np.full(80, 81 / 82), np.full(50, 1 / 52)])

    def loss(parameters: np.ndarray) -> float:
        logits = parameters[0] * scores + parameters[1]
        return float(np.sum(np.logaddexp(0, logits) - targets * logits))

    reference = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"maxiter": 5000})

    found = fit_platt(positives.tolist(), negatives.tolist())

    assert isinstance(found, PlattCalibrator)
    assert found.a == pytest.approx(reference.x[0], rel=2e-3)
    assert found.b == pytest.approx(reference.x[1], rel=2e-3)


@pytest.mark.parametrize(
    ("positives", "negatives"),
    [
        ([], [0.1, 0.2]),
        ([0.1], []),
        ([], []),
        # The mean of thirty times 0.1 is not 0.1: no curve may grow out of that.
        ([0.1] * 30, [0.1] * 3),
        ([0.1] * 100, [0.9] * 100),
        ([1e300] * 3, [1e300] * 3),
        ([1.7e308], [-1.7e308]),
        ([5e-324], [0.0]),
    ],
    ids=["no +", "no -", "none", "equal", "turned round", "huge", "too wide", "denormal"],
)
def test_without_a_rising_curve_the_identity_is_returned(
    positives: list[float], negatives: list[float]
) -> None:
    assert fit_platt(positives, negatives) == IdentityCalibrator()


@settings(derandomize=True, deadline=None, max_examples=20)
@given(_ANY, _ANY)
def test_any_finite_scores_give_a_usable_curve_without_a_warning(
    positives: list[float], negatives: list[float]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = fit_platt(positives, negatives)

    probabilities = [found.apply(score) for score in sorted([*positives, *negatives])]

    assert all(0.0 <= p <= 1.0 for p in probabilities)
    assert all(math.isfinite(p) for p in probabilities)
    assert all(b >= a - 1e-15 for a, b in itertools.pairwise(probabilities))
