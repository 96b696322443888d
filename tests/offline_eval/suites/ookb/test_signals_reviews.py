"""Reviewed cases in the report of relevance signals."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.offline_eval.report.what_if import WhatIf
from knowgate.offline_eval.run.measured_run import Review
from knowgate.offline_eval.suites.ookb._signals_report import signals_document, signals_what_if
from knowgate.offline_eval.suites.ookb._signals_summary import SignalsSummary
from tests.offline_eval.suites.ookb.written_rows import WriteRun, pairs

IN_KB = [0.9] * 6
LEFT_OUT = [0.95, 0.8, 0.7, 0.2, 0.1, 0.1]
QUESTIONS = [f"q{number}" for number in range(6)]


@pytest.fixture
def run(write_run: WriteRun) -> Path:
    """Three of six left-out questions pass."""
    return write_run(pairs(IN_KB, LEFT_OUT), test_questions=QUESTIONS)


def read(run: Path) -> SignalsSummary:
    return SignalsSummary.read(run)


def say(run: Path, **verdicts: Review.Verdict) -> SignalsSummary:
    Review.log(run).append(
        Review(case_id=f"{name}/left_out", verdict=said) for name, said in verdicts.items()
    )
    return read(run)


def text_of(run: SignalsSummary) -> str:
    return repr(signals_document(run))


def test_an_answered_case_counts_in_no_rate(run: Path) -> None:
    unreviewed = read(run)
    found = say(run, q0=Review.Verdict.ANSWERED, q1=Review.Verdict.UNSURE)

    assert (unreviewed.left_out.tested, unreviewed.left_out.abstained) == (6, 3)
    assert (found.left_out.cases, found.left_out.tested, found.left_out.abstained) == (6, 5, 3)
    assert vars(found.in_kb) == vars(unreviewed.in_kb)
    assert unreviewed.auroc.value is not None
    assert found.auroc.value is not None
    assert found.auroc.value > unreviewed.auroc.value
    assert found.to_dict()["reviews"] == {
        "reviewed": 2, "answered": 1, "not_answered": 0, "unsure": 1,
    }  # fmt: skip
    assert "reviews" not in unreviewed.to_dict()


def test_an_answered_case_that_passes_is_shown_as_no_mistake(run: Path) -> None:
    found = {case.row.case_id: case for case in read(run).scored}
    reviewed = say(run, q0=Review.Verdict.ANSWERED).scored
    case = next(case for case in reviewed if case.row.case_id == "q0/left_out")

    assert found["q0/left_out"].left_out
    assert (case.left_out, case.elsewhere, case.in_kb, case.found) == (False, True, False, False)
    assert text_of(read(run)).count("let through wrongly") == 2


def test_other_thresholds_are_judged_by_the_same_cases_as_the_rates(run: Path) -> None:
    reviewed = say(run, q0=Review.Verdict.ANSWERED)
    what_if = signals_what_if(reviewed)
    assert isinstance(what_if, WhatIf)
    outcomes = what_if.at(0.5, None)

    assert (outcomes.leak.part, outcomes.leak.whole) == (2, 5)
    assert (outcomes.false_abstention.part, outcomes.false_abstention.whole) == (0, 6)
    # It passes, rightly.
    assert (outcomes.coverage.part, outcomes.coverage.whole) == (9, 12)
    assert outcomes.wrong.part == 2
