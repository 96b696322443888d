"""One of several scorers is chosen by calibrating all of them on the same questions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Costs, Leak, fit_policy
from knowgate.calibration.risk.costs import LeakFold
from knowgate.calibration.risk.fit import PolicyBinding
from knowgate.guard import Fingerprint, Guarantee, InputError
from knowgate.offline_eval.policies import calibrate_records
from knowgate.offline_eval.policies.records import CalibrationSet
from tools.attack import certificates

RISK, DELTA = Leak(0.2), 0.1


def measured(name: str, gap: float, *, seed: int = 0, questions: int = 120) -> CalibrationSet:
    """Questions with and without their source, `gap` apart on the scale of the scorer."""
    rng = np.random.default_rng(seed)
    records = [
        record
        for i, (there, missing) in enumerate(rng.normal(size=(questions, 2)).tolist())
        for record in CalibrationRecord.leave_one_out_pair(
            f"q{i}", there + gap, missing, group=f"p{i // 2}"
        )
    ]
    return CalibrationSet(tuple(records), name, Fingerprint(kind=name), leaves_out=True)


def test_the_scorer_that_lets_most_through_is_taken_and_shares_delta() -> None:
    weak, strong = measured("weak", 0.5), measured("strong", 3.0)
    found = calibrate_records([weak, strong], RISK, delta=DELTA)

    guarantee = found.policy.guarantee
    assert found.measured.scorer == strong.scorer
    assert found.policy.scorer.kind == "strong"
    assert guarantee is not None
    assert guarantee.certified
    assert (guarantee.candidates, guarantee.delta, guarantee.level) == (2, DELTA, DELTA / 2)
    assert "confidence 90% (the best of 2 scorers, tested at level 0.05" in guarantee.statement
    assert guarantee.risks[0].p_value <= DELTA / 2
    alone = fit_policy(strong.records, RISK, delta=DELTA / 2)
    assert found.policy.relevance_threshold == alone.policy.relevance_threshold
    # Which is named first decides only between equals.
    assert calibrate_records([strong, weak], RISK, delta=DELTA).measured.scorer == strong.scorer
    same = replace(strong, source="same")
    assert calibrate_records([same, strong], RISK, delta=DELTA).measured.source == "same"


def test_the_reported_rates_repeat_the_choice() -> None:
    alike = [measured(f"s{seed}", 1.2, seed=seed, questions=40) for seed in range(4)]
    found = calibrate_records(alike, RISK, delta=DELTA)
    single = [fit_policy(one.records, RISK, delta=DELTA / 4) for one in alike]

    folds = LeakFold.chosen([LeakFold.deal(fit, seed=found.seed) for fit in single])
    judged = [r for fold in folds for r in fold.records if r.is_answerable]
    assert sorted(r.question_id for r in judged) == sorted(f"q{i}" for i in range(40))
    abstained = sum(
        r.relevance is None or fold.threshold is None or r.relevance < fold.threshold
        for fold in folds
        for r in fold.records
        if r.is_answerable
    )
    assert found.false_abstention.value == pytest.approx(abstained / 40)


def test_what_cannot_be_compared_is_rejected() -> None:
    strong = measured("strong", 3.0)
    with pytest.raises(InputError, match="holds other questions or passages than strong"):
        calibrate_records([strong, measured("few", 3.0, questions=40)], RISK, delta=DELTA)
    with pytest.raises(ValueError, match="for a Leak"):
        calibrate_records([strong, strong], 0.1, delta=DELTA)
    with pytest.raises(ValueError, match="for a Leak"):
        fit_policy(strong.records, 0.1, delta=DELTA, binding=PolicyBinding(candidates=2))
    with pytest.raises(InputError, match="candidates must be 1 or more"):
        fit_policy(strong.records, RISK, delta=DELTA, binding=PolicyBinding(candidates=0))


def test_a_choice_counts_as_one_attempt_on_each_of_its_runs(tmp_path: Path) -> None:
    def stored(name: str, gap: float) -> CalibrationSet:
        source = tmp_path / f"{name}.jsonl"
        source.write_text("", encoding="utf-8")
        return replace(measured(name, gap), source=str(source))

    strong, weak = stored("strong", 3.0), stored("weak", 0.5)

    def attempt(*sets: CalibrationSet, risk: float = 0.2) -> tuple[int | None, float]:
        found = calibrate_records(sets, Leak(risk), delta=DELTA, counted=True)
        assert found.policy.guarantee is not None
        return found.policy.guarantee.attempt, found.policy.guarantee.level

    assert attempt(strong, weak) == (1, Guarantee.level_of(DELTA, 1) / 2)
    # Which is named first is no other attempt, and another bound is one whichever is first.
    assert attempt(weak, strong) == (1, Guarantee.level_of(DELTA, 1) / 2)
    assert attempt(weak, strong, risk=0.25) == (2, Guarantee.level_of(DELTA, 2) / 2)
    assert attempt(strong) == (3, Guarantee.level_of(DELTA, 3))
    assert attempt(strong, risk=0.25) == (4, Guarantee.level_of(DELTA, 4))
    assert attempt(weak) == (3, Guarantee.level_of(DELTA, 3))
    # Four on one of them: the next one on both is the fifth.
    assert attempt(strong, weak, risk=0.3) == (5, Guarantee.level_of(DELTA, 5) / 2)
    assert attempt(weak) == (3, Guarantee.level_of(DELTA, 3))
    with pytest.raises(InputError, match="cannot be counted"):
        attempt(strong, measured("nowhere", 0.5))


@pytest.mark.parametrize("kind", ["clustered", "tied"])
def test_unkind_records_break_no_leak(kind: str) -> None:
    # δ of 20 draws, and two standard errors; `make attack` draws 200.
    assert certificates.unkind_leaks(kind, 20) <= 4


def test_the_intervals_hold_the_rates_of_the_policy_that_is_written() -> None:
    missed = certificates.missed_intervals(40, 1, 60)

    # It was 42 % for false abstention.
    assert max(missed.values()) <= 8


def test_the_rates_of_a_leak_are_those_of_the_policy_on_its_questions() -> None:
    records = [
        record
        for i in range(40)
        for record in CalibrationRecord.leave_one_out_pair(f"q{i}", 0.5 * i, 0.25 * i)
    ]
    measured = CalibrationSet(tuple(records), "made", leaves_out=True)

    found = calibrate_records(measured, Leak(0.1), delta=0.1)

    # One of forty may pass: that with 9.75. So the threshold lies above 9.5, below 9.75, and the
    # twenty answerable ones from 0 to 9.5 are abstained from.
    assert found.policy.guarantee is not None
    assert found.policy.guarantee.errors == 1
    assert found.leak_rates is not None
    assert found.leak_rates.left_out_abstention.value == 39 / 40
    assert found.leak_rates.false_abstention.value == 20 / 40


def test_the_interval_of_costs_holds_that_of_the_policy_itself() -> None:
    measured = CalibrationSet(
        tuple(
            record
            for i in range(40)
            for record in CalibrationRecord.leave_one_out_pair(
                f"q{i}", 1.0 + (i * 7 % 40) / 20, (i * 11 % 40) / 20
            )
        ),
        "made",
        leaves_out=True,
    )

    found = calibrate_records(measured, Costs(2.0))

    policy, rates = found.policy, found.leak_rates
    assert rates is not None
    itself = sum(
        record.is_answerable and policy.route(
            policy.relevance_calibrator.apply(record.relevance or 0.0), None
        ).value == "abstain"
        for record in measured.records
    ) / 40  # fmt: skip
    assert rates.false_abstention.low is not None
    assert rates.false_abstention.high is not None
    assert rates.false_abstention.low <= itself <= rates.false_abstention.high
