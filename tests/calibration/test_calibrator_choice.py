"""The kind that suits the data is found, honestly where there is little of it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, cross_val_predict

from knowgate.calibration import CalibratorChoice, fit_hidden_state_probe
from knowgate.calibration.calibrators import deal_to_folds
from knowgate.calibration.hidden_state_probe import ProbeFit, ProbeSearch
from knowgate.guard.routing import TemperatureCalibrator
from knowgate.guard.signals.confidence import StepwiseEstimator, load_estimator
from tests.support.local_models import StatefulLM


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def test_overconfident_probabilities_get_a_temperature() -> None:
    rng = np.random.default_rng(0)
    log_odds = rng.normal(size=1500) * 3
    outcomes = rng.random(1500) < _sigmoid(log_odds / 3)

    found = CalibratorChoice.among(_sigmoid(log_odds).tolist(), outcomes.tolist())

    assert found.kind == "temperature"
    assert isinstance(found.calibrator, TemperatureCalibrator)
    assert found.calibrator.temperature == pytest.approx(3.0, rel=0.15)
    assert set(found.losses) == {"platt", "isotonic", "temperature", "venn_abers"}
    assert (found.n, found.folds) == (1500, 5)


def test_platts_loss_is_that_of_scikit_learns_cross_validation() -> None:
    rng = np.random.default_rng(4)
    scores, groups = rng.normal(size=400), np.repeat(np.arange(100), 4)
    outcomes = rng.random(400) < _sigmoid(2 * scores)
    predicted = cross_val_predict(
        LogisticRegression(C=1e4),
        scores[:, None],
        outcomes,
        cv=GroupKFold(5),
        groups=groups,
        method="predict_proba",
    )

    found = CalibratorChoice.among(
        scores.tolist(), outcomes.tolist(), groups=[f"q{g}" for g in groups]
    )

    # Other folds, hence not to the last digit.
    assert found.losses["platt"] == pytest.approx(log_loss(outcomes, predicted[:, 1]), abs=0.01)
    assert found.n == 100


def test_a_group_never_lies_in_two_folds_and_folds_are_alike() -> None:
    rng = np.random.default_rng(5)
    unit = np.repeat(np.arange(60), rng.integers(1, 6, 60)).astype(np.int64)
    outcomes = (rng.random(len(unit)) < 0.2).astype(np.float64)

    fold = deal_to_folds(unit, outcomes, 5, 0)

    assert all(len(set(fold[unit == group])) == 1 for group in range(60))
    assert np.ptp(np.bincount(fold)) <= 5
    assert np.ptp(np.bincount(fold, weights=outcomes)) <= 5


def test_variants_of_one_question_do_not_leak_into_its_own_judgement() -> None:
    # Pure noise, each question having its own score: with variants of it among the fitted
    # cases, a table looks some of the answers up.
    rng = np.random.default_rng(7)
    scores = np.repeat(rng.random(60), 10)
    outcomes = np.repeat(rng.random(60) < 0.5, 10)
    groups = [str(i) for i in np.repeat(np.arange(60), 10)]

    kept = CalibratorChoice.among(scores.tolist(), outcomes.tolist(), groups=groups)
    leaked = CalibratorChoice.among(scores.tolist(), outcomes.tolist())

    assert kept.losses["venn_abers"] > 0.65
    assert leaked.losses["venn_abers"] < kept.losses["venn_abers"] - 0.02


@pytest.mark.parametrize(
    ("scores", "outcomes", "groups"),
    [
        ([0.1 + 0.04 * i for i in range(19)], [i > 8 for i in range(19)], None),
        ([0.1 + 0.004 * i for i in range(100)], [i > 50 for i in range(100)], ["a", "b"] * 50),
        ([0.1 + 0.02 * i for i in range(40)], [i == 39 for i in range(40)], None),
    ],
    ids=["few cases", "few groups", "one true case"],
)
def test_with_too_little_to_compare_the_choice_is_platt_and_says_so(
    scores: list[float], outcomes: list[bool], groups: list[str] | None
) -> None:
    found = CalibratorChoice.among(scores, outcomes, groups=groups)

    assert found.kind == "platt"
    assert (found.losses, found.folds) == ({}, 0)
    assert "too few to compare" in found.reason


RNG = np.random.default_rng(0)
LABELS = (RNG.uniform(size=120) < 0.5).tolist()
QUESTIONS = [
    f"question {number} #{(1.0 if label else -1.0) + RNG.normal(scale=0.6):.3f}"
    for number, label in enumerate(LABELS)
]


def fitted(**changes: object) -> ProbeFit:
    settings = {"folds": 3, "penalties": (0.01, 0.1)} | changes
    search = ProbeSearch(**settings)  # type: ignore[arg-type]
    return fit_hidden_state_probe(StatefulLM(), QUESTIONS, LABELS, search=search)


def test_the_layer_that_shows_it_is_found_and_the_estimator_uses_it() -> None:
    fit = fitted()
    assert fit.probe.layer == 2
    assert fit.auroc.value is not None
    assert fit.auroc.value > 0.9
    assert fit.auroc.n == 120
    assert {layer for layer, _ in fit.by_choice} == {1, 2, 3}
    lm = StatefulLM(default="Ada")
    estimator = load_estimator("hidden_state_probe", lm, probe=fit.probe)
    assert isinstance(estimator, StepwiseEstimator)
    found = estimator.estimate_many(["new #1.2", "new #-1.2"])
    assert found[0].value > 0.7 > 0.3 > found[1].value


def test_questions_of_one_group_are_never_on_both_sides() -> None:
    # Each group repeats one state, and its label says nothing beyond the group: only a leak helps.
    rng = np.random.default_rng(1)
    groups = np.repeat(np.arange(30), 4)
    labels = np.repeat(rng.permutation([True] * 15 + [False] * 15), 4).tolist()
    questions = [f"group {group} #0" for group in groups]
    fit = fit_hidden_state_probe(
        StatefulLM(), questions, labels, groups.tolist(), search=ProbeSearch((1,), (10.0,), 3)
    )
    assert fit.auroc.value is not None
    assert fit.auroc.value < 0.75
    assert fit.auroc.n == 30
