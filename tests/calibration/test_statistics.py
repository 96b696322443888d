"""Intervals, tails, AUROC and curves against hand values and reference implementations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from sklearn.metrics import roc_auc_score

from knowgate.calibration import Interval, SelectiveCurve
from knowgate.calibration.statistics import errors_allowed, errors_allowed_each, questions_needed

_SCORES = st.lists(st.floats(-1e6, 1e6, allow_nan=False), min_size=1, max_size=20)
_RISKS = st.sampled_from([0.001, 0.01, 0.05, 0.1, 0.2, 0.25, 0.5, 0.9, 0.999])


@pytest.mark.parametrize("n", [1, 2, 7, 30, 112, 5000])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_wilson_agrees_with_scipy(n: int, confidence: float) -> None:
    for successes in {0, 1, n // 3, n - 1, n}:
        reference = binomtest(successes, n).proportion_ci(confidence, method="wilson")

        found = Interval.wilson(successes, n, confidence)

        assert found.low == pytest.approx(reference.low, abs=1e-12)
        assert found.high == pytest.approx(reference.high, abs=1e-12)


@settings(derandomize=True, deadline=None)
@given(st.integers(0, 400), _RISKS, _RISKS)
def test_the_errors_allowed_are_the_most_that_pass_the_test(
    n: int, risk: float, delta: float
) -> None:
    # Where the tail is delta itself, rounding decides.
    most = {
        max((k for k in range(n + 1) if n and binom.cdf(k, n, risk) <= bound), default=None)
        for bound in (delta * (1 - 1e-12), delta * (1 + 1e-12))
    }

    assert errors_allowed(n, risk, delta) in most


@settings(derandomize=True, deadline=None)
@given(_RISKS, _RISKS)
def test_the_questions_needed_are_the_fewest_that_can_certify(risk: float, delta: float) -> None:
    n = questions_needed(risk, delta)

    assert errors_allowed(n, risk, delta) is not None
    assert n == 1 or errors_allowed(n - 1, risk, delta) is None


@settings(derandomize=True, deadline=None)
@given(_SCORES, _SCORES)
def test_auroc_agrees_with_scikit_learn(positives: list[float], negatives: list[float]) -> None:
    labels = [1] * len(positives) + [0] * len(negatives)

    found = SelectiveCurve.auroc(positives, negatives)

    assert found == pytest.approx(roc_auc_score(labels, positives + negatives), abs=1e-12)


def test_auroc_by_hand_and_at_the_edges_of_floats() -> None:
    assert SelectiveCurve.auroc([0.9, 0.5], [0.5, 0.1]) == 0.875
    assert SelectiveCurve.auroc([1e300, 5e-324], [0.0, -1e300]) == 1.0
    assert SelectiveCurve.auroc([0.3] * 9, [0.3] * 4) == 0.5
    assert SelectiveCurve.auroc([], [1.0]) is None
    assert SelectiveCurve.auroc([1.0], []) is None


@pytest.mark.slow
def test_the_bootstrap_resamples_questions_as_a_loop_over_scikit_learn_does() -> None:
    rng = np.random.default_rng(3)
    questions = [([float(rng.normal(1))], [float(rng.normal())] * 2) for _ in range(30)]
    drawn = []
    for draw in range(2000):
        picked = [questions[i] for i in rng.integers(0, 30, 30)]
        positives = [s for p, _ in picked for s in p]
        negatives = [s for _, n in picked for s in n]
        # Without ties but those of a question with itself.
        drawn.append(float(np.greater.outer(positives, negatives).mean()))
        if draw < 50:  # scikit-learn takes a hundred times as long
            labels = [1] * len(positives) + [0] * len(negatives)
            assert drawn[-1] == pytest.approx(roc_auc_score(labels, positives + negatives))

    found = SelectiveCurve.bootstrap_auroc(questions)

    assert found.low == pytest.approx(float(np.quantile(drawn, 0.025)), abs=0.01)
    assert found.high == pytest.approx(float(np.quantile(drawn, 0.975)), abs=0.01)


def test_errors_are_counted_at_levels_of_many_attempts() -> None:
    """A cascade that shares a small level among attempts still knows what its test allows."""
    found = errors_allowed_each(np.asarray([0, 100, 300]), 0.2, 6e-10)
    assert found.tolist() == [-1, 0, 21]
    assert binom.cdf(21, 300, 0.2) <= 6e-10 < binom.cdf(22, 300, 0.2)
