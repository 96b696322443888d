"""The promises by the public path, on records that a checker would not like; seeds are fixed."""

from __future__ import annotations

import pytest

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Costs, Leak
from knowgate.offline_eval.policies import calibrate_records
from knowgate.offline_eval.policies.records import CalibrationSet
from tools.attack import certificates


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
