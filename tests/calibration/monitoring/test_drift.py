"""Live signals against a policy's histograms."""

from __future__ import annotations

import numpy as np
import pytest

from knowgate.calibration.monitoring import calibration_histograms
from knowgate.calibration.monitoring._distance import bin_of
from knowgate.calibration.monitoring.drift import DriftReport, DriftVerdict
from knowgate.guard import Policy
from tests.calibration.monitoring.populations import (
    EDGES,
    Question,
    asked,
    calibrated_policy,
    histogram,
    questions,
)
from tests.support.guards import policy_with


def verdicts(policy: Policy, live: list[Question]) -> list[DriftVerdict]:
    return [signal.verdict for signal in DriftReport.of(policy, live).signals]


def test_a_value_falls_into_the_bin_that_numpy_puts_it_in() -> None:
    values = [0.0, 0.05, 0.1, 0.15, 0.3, 0.7, 0.95, 1.0, *np.random.default_rng(0).random(500)]
    counts = np.zeros(20)
    for value in values:
        counts[bin_of(EDGES, value)] += 1
    assert counts.tolist() == np.histogram(values, EDGES)[0].tolist()


def test_the_histograms_of_a_policy_by_hand() -> None:
    policy = policy_with()  # relevance from .5, confidence from .7
    live = [
        Question(0.9, 0.2),  # follows; confidence is not asked for
        Question(0.1, 0.8),  # answers
        Question(0.1, 0.3),  # abstains
        Question(None, 0.9),  # relevance failed: abstains before confidence is asked for
        Question(0.1, None),  # confidence failed: abstains
    ]

    found = calibration_histograms(policy, live)

    assert {name: sum(h.counts) for name, h in found.items()} == {
        "relevance": 4, "confidence": 4, "confidence.asked": 2, "abstained": 5,
    }  # fmt: skip
    assert found["abstained"].counts == (2, 3)
    assert found["relevance"].counts[18] == 1
    assert found["relevance"].counts[2] == 3


@pytest.mark.slow
def test_false_verdicts_on_any_signal_are_as_rare_as_alpha() -> None:
    policy = policy_with()
    draws, wrong = 40, 0
    for seed in range(draws):
        histograms = calibration_histograms(policy, questions(seed, 200))
        fitted = policy.model_copy(update={"histograms": histograms})
        live = [asked(policy, question) for question in questions(1000 + seed, 400)]
        report = DriftReport.of(fitted, live, alpha=0.1, least=30, seed=seed)
        told = {"drifted", "slight drift"}
        wrong += any(signal.verdict in told for signal in report.signals)
    assert wrong / draws <= 0.1 + 2 * (0.1 * 0.9 / draws) ** 0.5


def test_a_selection_is_not_compared_with_all_questions() -> None:
    policy = calibrated_policy()
    histograms = {k: v for k, v in policy.histograms.items() if k != "confidence.asked"}
    policy = policy.model_copy(update={"histograms": histograms})

    selected = [asked(policy, question) for question in questions(1, 500)]

    assert verdicts(policy, selected)[1] == "not comparable"
    assert verdicts(policy, questions(1, 500))[1] == "no drift seen"


def leave_one_out_policy() -> Policy:
    rng = np.random.default_rng(0)
    histograms = {
        "relevance.in_kb": histogram(rng.beta(5, 2, 400)),
        "relevance.left_out": histogram(rng.beta(2, 4, 400)),
    }
    return policy_with(confidence_threshold=None, histograms=histograms)


def test_leave_one_out_histograms_are_compared_as_a_mixture() -> None:
    rng = np.random.default_rng(1)
    mixed = [*rng.beta(5, 2, 600), *rng.beta(2, 4, 200)]

    report = DriftReport.of(
        leave_one_out_policy(), [Question(float(value), None) for value in mixed]
    )

    [relevance] = report.signals
    assert relevance.verdict == "no drift seen"
    assert relevance.reference == ("relevance.in_kb", "relevance.left_out")
    assert relevance.share_in_kb is not None
    assert relevance.share_in_kb == pytest.approx(0.75, abs=0.08)
    assert "of questions with their answer in the knowledge base" in report.words
