"""The promise of a leak where a person found some left-out questions answered elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Leak, fit_policy
from knowgate.guard.policy import Policy
from tests.support.results import guarantee_of

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
ELSEWHERE = CalibrationRecord.ELSEWHERE


def records(scores: Floats, elsewhere: Bools, per_passage: int) -> list[CalibrationRecord]:
    found = []
    for at, (score, answered) in enumerate(zip(scores.tolist(), elsewhere.tolist(), strict=True)):
        group = f"p{at // per_passage}"
        case = ELSEWHERE if answered else "left_out"
        found.append(CalibrationRecord(str(at), score, None, answered, None, group, case=case))
        found.append(CalibrationRecord(str(at), score + 2.0, None, True, None, group, case="in_kb"))
    return found


def fitted(scores: Floats, elsewhere: Bools, per_passage: int = 1) -> Policy:
    return fit_policy(records(scores, elsewhere, per_passage), Leak(0.2), delta=0.1).policy


def passing(policy: Policy, scores: Floats) -> Bools:
    follows = [policy.route(policy.relevance_calibrator.apply(float(s)), None) for s in scores]
    return np.asarray([route.value == "follow_context" for route in follows])


def test_a_reviewed_case_is_no_leak_and_a_reviewer_is_told_what_that_means() -> None:
    scores = np.linspace(-2.0, 2.0, 40)
    none = np.zeros(40, dtype=bool)
    highest = scores > 1.5
    before, after = fitted(scores, none), fitted(scores, highest)

    assert before.guarantee is not None
    assert after.guarantee is not None
    assert passing(after, scores).sum() > passing(before, scores).sum()
    assert after.guarantee.n == 40 - highest.sum()
    assert "5 were found by review to be answered by another passage" in after.guarantee.statement
    assert "Of 40 left-out questions" in after.guarantee.statement
    assert "review" not in before.guarantee.statement
    assert "review did not find it answered" in after.guarantee.loss
    # The questions are the same, whatever was said of them.
    assert before.calibration_set_sha256 == after.calibration_set_sha256


def test_reviews_of_everything_certify_nothing() -> None:
    scores = np.linspace(-2.0, 2.0, 40)
    guarantee = guarantee_of(fitted(scores, np.ones(40, dtype=bool)))
    assert not guarantee.certified


def test_no_review_certifies_more_than_a_review_of_everything_would() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(30, 80))
        answered = rng.random(size) < 0.3
        scores = rng.standard_normal(size) + 2.0 * answered * (rng.random(size) < 0.7)
        order = np.argsort(-scores) if seed % 2 else rng.permutation(size)
        some = np.zeros(size, dtype=bool)
        some[order[: int(rng.integers(0, size))]] = True
        partly = fitted(scores, answered & some)
        # What the whole review tests that threshold on: the questions without those that are
        # answered and pass.
        passes = passing(partly, scores)
        whole = fitted(scores, answered & passes)

        assert not (passes & ~passing(whole, scores)).any()


def test_questions_of_one_passage_may_be_reviewed_apart() -> None:
    scores = np.tile(np.linspace(-2.0, 2.0, 30), 4)
    reviewed = (scores > 1.5) & (np.arange(120) % 4 == 0)
    guarantee = guarantee_of(fitted(scores, reviewed, per_passage=4))
    assert guarantee.certified
    assert guarantee.n == 120 - reviewed.sum()
