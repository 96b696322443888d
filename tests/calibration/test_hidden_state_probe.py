"""Fitting a probe: it finds the layer that knows, honestly and repeatably."""

from __future__ import annotations

import numpy as np

from knowgate.calibration import fit_hidden_state_probe
from knowgate.calibration.hidden_state_probe import ProbeFit, ProbeSearch
from knowgate.guard.signals.confidence import StepwiseEstimator, load_estimator
from tests.support.local_models import StatefulLM

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
