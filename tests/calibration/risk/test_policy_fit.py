"""What `fit_policy` makes of records, beyond the promise itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Coverage, RiskTarget, fit_policy
from knowgate.calibration.risk.fit import PolicyBinding
from knowgate.calibration.risk.risks import LossTable, PathPoint
from knowgate.guard import Fingerprint, Route
from tests.calibration.risk.populations import calibrated
from tests.support.results import guarantee_of


def _sample(n: int = 600, seed: int = 0) -> list[CalibrationRecord]:
    return calibrated(n, np.random.default_rng(seed)).records()


def test_when_nothing_qualifies_the_policy_abstains_and_says_how_far_off_it_is() -> None:
    policy = fit_policy(_sample(30), risk=0.05, delta=0.1).policy
    guarantee = guarantee_of(policy)
    assert not guarantee.certified
    assert policy.route(1.0, 1.0) is Route.ABSTAIN
    assert "always abstains" in guarantee.statement
    assert guarantee.more_questions is None or guarantee.more_questions > 0


def test_several_risks_hold_together() -> None:
    targets = [RiskTarget("selective", 0.3), RiskTarget("false_abstention", 0.6)]
    guarantee = guarantee_of(fit_policy(_sample(2000), risk=targets, delta=0.1).policy)
    assert guarantee.certified
    assert [risk.kind for risk in guarantee.risks] == ["selective", "false_abstention"]
    assert all(risk.p_value <= 0.1 for risk in guarantee.risks)


def test_bounded_costs_are_certified_by_hoeffding_and_bentkus() -> None:
    table = LossTable(wrong_follow=1.0, wrong_answer=0.5, false_abstention=0.1)
    guarantee = guarantee_of(
        fit_policy(_sample(2000), risk=[RiskTarget("cost", 0.2, table)], delta=0.1).policy
    )
    assert guarantee.certified
    [risk] = guarantee.risks
    assert risk.losses == {"wrong_follow": 1.0, "wrong_answer": 0.5, "false_abstention": 0.1}
    assert risk.n == guarantee.questions
    assert risk.loss / risk.n < 0.2


def test_a_conflict_that_means_trouble_is_abstained_from() -> None:
    rng = np.random.default_rng(0)
    records = []
    for i in range(1500):
        relevance, conflict = float(rng.random()), bool(rng.random() < 0.4)
        right = rng.random() < (0.05 if conflict else 0.6 + 0.4 * relevance)
        records.append(
            CalibrationRecord(str(i), relevance, 1.0, bool(right), False, conflict=conflict)
        )
    policy = fit_policy(
        records,
        risk=0.2,
        delta=0.1,
        conflict_between="passages",
        allowed_routes=(Route.FOLLOW_CONTEXT,),
    ).policy
    assert policy.check_conflict
    assert policy.route(1.0, None, False) is Route.FOLLOW_CONTEXT
    assert policy.route(1.0, None, True) is Route.ABSTAIN


def test_the_empty_cell_at_the_strict_end_of_a_given_path_is_passed_over() -> None:
    path = [(1.0, 1.0), (0.999, 0.999), *[(t / 100, t / 100) for t in range(95, 0, -1)]]
    assert guarantee_of(fit_policy(_sample(), risk=0.2, delta=0.1, path=path).policy).certified


def test_a_point_that_fails_ends_the_sequence_even_if_a_later_one_would_pass() -> None:
    records = [CalibrationRecord(f"a{i}", 0.9, None, False, None) for i in range(60)]
    records += [CalibrationRecord(f"b{i}", 0.5, None, True, None) for i in range(3000)]
    path = [PathPoint(0.8, None), PathPoint(0.4, None)]
    assert not guarantee_of(fit_policy(records, risk=0.1, delta=0.1, path=path).policy).certified


def test_weights_change_whom_the_promise_speaks_of() -> None:
    # Records of the wrong kind are rare in service: 1 in 10 of their share here.
    wrong = [CalibrationRecord(f"w{i}", 0.9, None, False, None, weight=0.1) for i in range(300)]
    right = [CalibrationRecord(f"r{i}", 0.9, None, True, None) for i in range(700)]
    path = [PathPoint(0.5, None)]
    weighted = guarantee_of(fit_policy(wrong + right, risk=0.1, delta=0.1, path=path).policy)
    assert weighted.certified
    assert weighted.errors / weighted.n == pytest.approx(30 / 730, abs=0.03)


def test_one_record_per_question_is_drawn_blindly_and_in_proportion_to_weight() -> None:
    records = [
        CalibrationRecord(f"q{i}", relevance, None, True, None, weight=weight)
        for i in range(4000)
        for relevance, weight in ((0.1, 1.0), (0.9, 3.0))
    ]
    kept = CalibrationRecord.one_per_question(records)
    assert len(kept) == 4000
    assert np.mean([r.relevance == 0.9 for r in kept]) == pytest.approx(0.75, abs=0.03)


@pytest.mark.slow
def test_a_large_easy_document_does_not_buy_a_promise_for_all() -> None:
    """Half of the questions are about one document that goes well; the others go wrong."""
    false, draws = 0, 50
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        document = np.where(rng.random(1000) < 0.5, 0, rng.integers(1, 12, 1000))
        right = rng.random(1000) >= np.where(document == 0, 0.02, 0.381)  # .2005 wrong in all
        records = [
            CalibrationRecord(str(i), 0.5, None, bool(ok), None, group=f"d{d}")
            for i, (d, ok) in enumerate(zip(document, right, strict=True))
        ]
        false += guarantee_of(fit_policy(records, risk=0.2, delta=0.1).policy).certified
    assert false / draws <= 0.1 + 2 * math.sqrt(0.09 / draws)


def test_the_artefact_holds_the_path_the_evidence_and_the_histograms() -> None:
    scorer = Fingerprint(kind="lexical")
    policy = fit_policy(_sample(), risk=0.2, delta=0.1, binding=PolicyBinding(scorer=scorer)).policy
    guarantee = guarantee_of(policy)
    assert policy.scorer == scorer
    assert guarantee.chosen is not None
    chosen = guarantee.path[guarantee.chosen]
    assert chosen.relevance == policy.relevance_threshold
    assert (chosen.let_through, chosen.errors) == (guarantee.n, guarantee.errors)
    assert sum(guarantee.routes.values()) == guarantee.questions
    assert "another language model" in guarantee.statement
    assert {"relevance", "confidence", "abstained"} <= set(policy.histograms)


@pytest.mark.slow
def test_a_coverage_target_is_reached_and_its_risk_is_bounded() -> None:
    truth = calibrated(100_000, np.random.default_rng(1))
    missed = broken = 0
    for draw in range(40):
        records = calibrated(600, np.random.default_rng(draw)).records()
        policy = fit_policy(records, Coverage(0.6), delta=0.1).policy
        coverage, risk = truth.outcome_of(policy)
        missed += guarantee_of(policy).certified and coverage < 0.6
        broken += risk > guarantee_of(policy).risk
    assert missed + broken <= 7  # δ of 40 draws, and two standard errors
