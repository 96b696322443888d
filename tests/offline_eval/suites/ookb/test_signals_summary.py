from __future__ import annotations

import pytest

from knowgate.calibration import Interval
from knowgate.guard.routing import StepCalibrator
from knowgate.offline_eval.suites.ookb._signals_summary import SignalsSummary
from tests.offline_eval.suites.ookb.written_rows import (
    WriteRun,
    case,
    failed,
    missed,
    pairs,
    policy,
)


def test_rates_are_measured_on_the_held_out_questions_alone(write_run: WriteRun) -> None:
    run = write_run(
        pairs([0.9, 0.4, 0.9, 0.1], [0.1, 0.7, 0.2, 0.9]), test_questions=["q0", "q1", "q2"]
    )

    summary = SignalsSummary.read(run)

    assert (summary.left_out.abstained, summary.left_out.tested) == (2, 3)
    assert (summary.in_kb.abstained, summary.in_kb.tested) == (1, 3)
    expected = Interval.wilson(2, 3)
    assert summary.left_out.abstention_rate.to_dict() == expected.to_dict()
    assert summary.in_kb.abstention_rate.value == pytest.approx(1 / 3)


def test_a_relevance_at_the_threshold_passes(write_run: WriteRun) -> None:
    run = write_run(pairs([0.5], [0.4999]), test_questions=["q0"])

    summary = SignalsSummary.read(run)

    assert summary.in_kb.abstained == 0
    assert summary.left_out.abstained == 1


def test_the_calibrator_of_the_policy_is_applied(write_run: WriteRun) -> None:
    # 0.6 becomes 0.2 by the step table, and no longer passes.
    steps = StepCalibrator(edges=(0.7,), values=(0.2, 0.9))
    run = write_run(
        pairs([0.8], [0.6]),
        test_questions=["q0"],
        calibration={"policy": policy(relevance_calibrator=steps)},
    )

    summary = SignalsSummary.read(run)

    assert (summary.in_kb.abstained, summary.left_out.abstained) == (0, 1)


def test_a_retrieval_miss_is_no_false_abstention(write_run: WriteRun) -> None:
    rows = [missed(0, 0.1), case(0, "left_out", 0.1)]
    rows += [case(1, "in_kb", 0.9), case(1, "left_out", 0.2)]

    summary = SignalsSummary.read(write_run(rows, test_questions=["q0", "q1"]))

    assert (summary.in_kb.abstained, summary.in_kb.tested) == (0, 1)
    assert summary.retrieval_misses == 1
    assert summary.retrieval_miss_rate.value == 0.5
    assert summary.retrieval_miss_rate.n == 2


def test_the_auroc_counts_retrieval_misses_and_the_other_one_does_not(
    write_run: WriteRun,
) -> None:
    rows = [missed(0, 0.1), case(0, "left_out", 0.5)]
    rows += [case(1, "in_kb", 0.9), case(1, "left_out", 0.3)]

    summary = SignalsSummary.read(write_run(rows))

    assert summary.auroc.value == 0.5
    assert summary.auroc_found_only.value == 1.0


@pytest.mark.parametrize(
    ("in_kb", "left_out", "successes"), [([0.9, 0.8], [0.2, 0.1], 2), ([0.2, 0.1], [0.9, 0.8], 0)]
)
def test_a_perfect_separation_claims_no_certainty(
    write_run: WriteRun, in_kb: list[float], left_out: list[float], successes: int
) -> None:
    value = SignalsSummary.read(write_run(pairs(in_kb, left_out))).to_dict()

    assert value["auroc"] == value["auroc_found_only"] == Interval.wilson(successes, 2).to_dict()


def test_failed_cases_are_counted_and_take_part_in_no_rate(write_run: WriteRun) -> None:
    rows = [failed(0, "in_kb"), failed(0, "left_out"), *pairs([0.9] * 2, [0.1] * 2)[2:]]

    summary = SignalsSummary.read(write_run(rows, test_questions=["q0", "q1"]))

    assert summary.errors == 2
    assert summary.errors_by_type == {"SignalTimeoutError": 2}
    assert (summary.left_out.errors, summary.left_out.tested) == (1, 1)
    assert (summary.in_kb.errors, summary.in_kb.tested) == (1, 1)
    assert summary.retrieval_miss_rate.n == 1


def test_nothing_retrieved_is_declined_and_ranks_lowest(write_run: WriteRun) -> None:
    rows = [case(0, "in_kb", -0.3), case(0, "left_out", None)]
    rows += [case(1, "in_kb", -0.4), case(1, "left_out", -0.35)]

    summary = SignalsSummary.read(write_run(rows, test_questions=["q0"]))

    assert (summary.left_out.abstained, summary.left_out.tested) == (1, 1)
    assert summary.auroc.value == 0.75
    assert summary.errors == 0


def test_a_policy_without_threshold_declines_everything(write_run: WriteRun) -> None:
    run = write_run(
        pairs([0.9], [0.1]), test_questions=["q0"], calibration={"policy": policy(None)}
    )

    summary = SignalsSummary.read(run)

    assert summary.left_out.abstention_rate.value == 1.0
    assert summary.in_kb.abstention_rate.value == 1.0
    assert summary.policy is not None
    assert summary.policy.threshold is None
