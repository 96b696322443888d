"""A policy fitted to a leak: what it certifies, and that the promise holds."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Fit, Leak, fit_policy
from knowgate.calibration.risk.fit import PolicyBinding
from knowgate.calibration.statistics import errors_allowed, questions_needed
from knowgate.guard import Fingerprint, Policy, PolicyError, Route
from tests.support.results import guarantee_of

_SCORER = Fingerprint(kind="fake")
_FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, 1.0, 0.5, -0.5, 7.0, 5e-324, 1e300]),
)


def _fit(
    in_kb: Sequence[float | None],
    left_out: Sequence[float | None],
    *,
    risk: float = 0.2,
    group_size: int = 1,
    delta: float = 0.1,
) -> Policy:
    records = [
        record
        for i, (a, b) in enumerate(zip(in_kb, left_out, strict=True))
        for record in CalibrationRecord.leave_one_out_pair(
            f"q{i}", a, b, group=f"p{i // group_size}"
        )
    ]
    return _fitted(records, risk=risk, delta=delta).policy


def _fitted(records: list[CalibrationRecord], *, risk: float, delta: float = 0.1) -> Fit:
    return fit_policy(records, Leak(risk), delta=delta, binding=PolicyBinding(scorer=_SCORER))


def _passes(policy: Policy, raw: float) -> bool:
    route = policy.route(policy.relevance_calibrator.apply(raw), None)
    return route is Route.FOLLOW_CONTEXT


def _numbers(count: int, mean: float, seed: int) -> list[float | None]:
    return [float(x) for x in np.random.default_rng(seed).normal(mean, 0.2, count)]


def test_the_policy_says_exactly_what_was_certified() -> None:
    policy = _fit(_numbers(100, 0.8, 0), _numbers(100, 0.3, 1), risk=0.1)

    guarantee = guarantee_of(policy)
    assert (guarantee.certified, guarantee.n, guarantee.unit) == (True, 100, "question")
    assert guarantee.errors == errors_allowed(100, 0.1, 0.1) == 5
    for words in ("confidence 90%", "the 100 calibration questions", "at most 10%", "(5 of 100"):
        assert words in guarantee.statement
    assert "says nothing about another domain" in guarantee.statement


def test_too_few_questions_give_a_policy_that_always_abstains_and_says_so() -> None:
    needed = questions_needed(0.1, 0.1)

    policy = _fit([0.9] * (needed - 1), [0.1] * (needed - 1), risk=0.1)

    assert policy.relevance_threshold is None
    assert policy.guarantee is not None
    assert not policy.guarantee.certified
    words = f"takes questions on {needed} different passages even if none of them passes"
    assert words in policy.guarantee.statement
    assert "here are 21 on 21. The smallest bound" in policy.guarantee.statement
    assert "can certify is 0.11." in policy.guarantee.statement
    assert policy.guarantee.more_questions == 1
    assert policy.route(1.0, None) is Route.ABSTAIN
    assert _fit([0.9] * needed, [0.1] * needed, risk=0.1).relevance_threshold is not None


def test_a_retrieval_miss_still_counts_as_a_question_that_must_not_pass() -> None:
    policy = _fit([None] * 40, _numbers(40, 0.3, 4))

    assert policy.guarantee is not None
    assert policy.guarantee.n == 40


def test_all_questions_of_a_passage_count_and_the_passage_is_the_unit() -> None:
    scores = _numbers(200, 0.3, 5)

    policy = _fit(scores, scores, group_size=10)

    assert policy.guarantee is not None
    assert policy.guarantee.n == 200
    assert "the 20 passages with 200 calibration questions" in policy.guarantee.statement
    assert "each passage's share of questions" in policy.guarantee.method
    # What cannot be certified from the passages is not certified from their questions.
    assert _fit(scores, scores, group_size=20, risk=0.1).relevance_threshold is None


def test_the_certificate_tells_the_test_of_every_threshold() -> None:
    records = [
        r
        for i in range(60)
        for r in CalibrationRecord.leave_one_out_pair(f"q{i}", 1 + i / 60, i / 60)
    ]

    fit = _fitted(records, risk=0.2)

    chosen = fit.certificate.chosen
    assert chosen is not None
    assert fit.policy.guarantee is not None
    assert fit.path[chosen].relevance == fit.policy.relevance_threshold
    assert fit.certificate.points[chosen].wrong == fit.policy.guarantee.errors
    assert [point.point for point in fit.certificate.points] == list(fit.path)
    assert fit.certificate.points[chosen + 1].p_value > 0.1


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.lists(_FLOATS, min_size=11, max_size=40), st.lists(_FLOATS, min_size=40, max_size=40))
def test_through_the_calibrator_no_more_pass_than_were_certified(
    left_out: list[float], in_kb: list[float]
) -> None:
    policy = _fit(list(in_kb[: len(left_out)]), list(left_out))

    passed = sum(_passes(policy, raw) for raw in left_out)

    assert policy.guarantee is not None
    if policy.guarantee.certified:
        allowed = errors_allowed(len(left_out), 0.2, 0.1)
        assert allowed is not None
        assert passed == policy.guarantee.errors <= allowed
    else:
        assert passed == 0


@pytest.mark.parametrize(
    ("in_kb", "left_out"),
    [
        ([0.5] * 40, [0.5] * 40),
        ([0.0] * 40, [0.0] * 40),
        ([None] * 40, [0.0] * 40),
        ([None] * 40, [5e-324] * 40),
        ([1.0] * 40, [-1.0] * 40),
        ([1e300] * 40, [-1e300] * 40),
        ([8.0] * 40, [9.0] * 40),
        ([1e300] * 20 + [0.6] * 20, [0.4] * 40),
        ([0.5000000000000001] * 40, [0.5] * 40),
        ([10.0] * 40, [float(i) for i in range(40)]),
        ([1.7e308] * 40, [-1.7e308] * 20 + [1.6e308] * 20),
    ],
    ids=[
        "equal",
        "zero",
        "all missed at zero",
        "denormal",
        "separated",
        "huge",
        "logits the wrong way round",
        "one outlier flattens the curve",
        "one bit apart",
        "off the scale",
        "the ends of the floats",
    ],
)
def test_degenerate_scores_never_certify_wrongly(
    in_kb: list[float | None], left_out: list[float | None]
) -> None:
    policy = _fit(in_kb, left_out)

    allowed = errors_allowed(40, 0.2, 0.1)
    assert allowed is not None
    assert sum(_passes(policy, raw) for raw in left_out if raw is not None) <= allowed
    reread = Policy.parse(json.loads(policy.to_json()), where="memory")
    assert reread == policy


def _with_unanswerable(
    rng: np.random.Generator, answerable: int, unanswerable: int, *, easier: float
) -> list[CalibrationRecord]:
    """Pairs of cases, and unanswerable questions whose scores lie lower than the left-out ones."""
    scores = rng.normal(size=(answerable, 2))
    records = [
        record
        for i, (a, b) in enumerate(scores.tolist())
        for record in CalibrationRecord.leave_one_out_pair(f"q{i}", a + 2.0, b)
    ]
    records += [
        CalibrationRecord(f"u{i}", float(score), None, False, None, case="unanswerable")
        for i, score in enumerate(rng.normal(-easier, 1.0, unanswerable))
    ]
    return records


def _only(records: list[CalibrationRecord], case: str) -> list[CalibrationRecord]:
    return [record for record in records if not record.is_missing or record.case == case]


def test_a_promise_about_unanswerable_questions_rests_on_them_alone() -> None:
    records = _with_unanswerable(np.random.default_rng(3), 60, 40, easier=1.0)

    own = _fitted(_only(records, "unanswerable"), risk=0.2)
    left_out = _fitted(_only(records, "left_out"), risk=0.2)

    guarantee = guarantee_of(own.policy)
    assert (guarantee.n, guarantee.missing) == (40, "unanswerable")
    # The exact binomial tail of 40 questions allows four of them: P(Bin(40, .2) ≤ 4) = .0759.
    assert guarantee.errors == 4
    assert guarantee.risks[0].p_value == pytest.approx(0.0759, abs=1e-4)
    assert "the 40 unanswerable questions" in guarantee.statement
    assert "left out" not in guarantee.statement
    assert guarantee_of(left_out.policy).missing == "left_out"
    assert sorted(own.policy.histograms) == ["relevance.in_kb", "relevance.unanswerable"]


def test_a_promise_about_both_takes_the_stricter_threshold_and_stores_both_counts(
    tmp_path: Path,
) -> None:
    records = _with_unanswerable(np.random.default_rng(3), 60, 40, easier=1.0)
    both = _fitted(records, risk=0.2)
    strict = _fitted(_only(records, "left_out"), risk=0.2)

    guarantee = guarantee_of(both.policy)
    assert guarantee.missing == "both"
    assert [risk.kind for risk in guarantee.risks] == ["leak", "unanswerable"]
    assert [risk.n for risk in guarantee.risks] == [60, 40]
    assert all(risk.p_value <= 0.1 for risk in guarantee.risks)
    scores = [record.relevance or 0.0 for record in records]
    assert [_passes(both.policy, s) for s in scores] == [_passes(strict.policy, s) for s in scores]
    path = tmp_path / "policy.json"
    both.policy.save(path)
    assert Policy.load(path) == both.policy


@pytest.mark.parametrize(("field", "value"), [("loss", 1.0), ("n", 50), ("p_value", 0.001)])
def test_edited_counts_of_unanswerable_questions_are_found(
    tmp_path: Path, field: str, value: float
) -> None:
    records = _with_unanswerable(np.random.default_rng(3), 60, 40, easier=1.0)
    policy = _fitted(records, risk=0.2).policy
    stored = json.loads(policy.to_json())
    stored["guarantee"]["risks"][1][field] = value
    del stored["digest"]
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(stored), encoding="utf-8")

    with pytest.raises(PolicyError):
        Policy.load(path)


@pytest.mark.slow
@pytest.mark.parametrize("easier", [-0.5, 1.0])
def test_the_promise_about_both_holds_for_each_of_them(easier: float) -> None:
    """Either bound is broken in at most δ of the draws."""
    rng, broken, draws = np.random.default_rng(7), 0, 120
    for _ in range(draws):
        policy = _fitted(_with_unanswerable(rng, 40, 40, easier=easier), risk=0.2).policy
        if policy.relevance_threshold is None:
            continue
        low, high = -20.0, 20.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (low, middle) if _passes(policy, middle) else (middle, high)
        broken += norm.sf(high) > 0.2 or norm.sf(high + easier) > 0.2

    # δ = .1, and three standard errors.
    assert broken / draws <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / draws)
