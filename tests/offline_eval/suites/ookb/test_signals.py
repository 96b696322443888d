"""Relevance signals: their summary, reviews, report, and runs that are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowgate.calibration import Interval
from knowgate.guard import Fingerprint, FingerprintMismatchError, InputError
from knowgate.guard.routing import StepCalibrator
from knowgate.offline_eval.report.what_if import WhatIf, share
from knowgate.offline_eval.run.measured_run import MeasuredRun, Review
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.ookb._signals_report import signals_what_if
from knowgate.offline_eval.suites.ookb.signals import SignalsSummary
from tests.offline_eval.suites.ookb.written_rows import (
    WriteRun,
    case,
    failed,
    missed,
    pairs,
    policy,
)
from tests.support.report_page import Page


def test_rates_are_measured_on_the_held_out_questions_alone(write_run: WriteRun) -> None:
    run = write_run(
        pairs([0.9, 0.4, 0.9, 0.1], [0.1, 0.7, 0.2, 0.9]), test_questions=["q0", "q1", "q2"]
    )
    summary = SignalsSummary.read(run).values
    assert (summary["left_out"]["abstained"], summary["left_out"]["tested"]) == (2, 3)
    assert (summary["in_kb"]["abstained"], summary["in_kb"]["tested"]) == (1, 3)
    expected = Interval.wilson(2, 3)
    assert summary["left_out"]["abstention_rate"].to_dict() == expected.to_dict()
    assert summary["in_kb"]["false_abstention_rate"].value == pytest.approx(1 / 3)


def test_a_relevance_at_the_threshold_passes(write_run: WriteRun) -> None:
    run = write_run(pairs([0.5], [0.4999]), test_questions=["q0"])
    summary = SignalsSummary.read(run).values
    assert summary["in_kb"]["abstained"] == 0
    assert summary["left_out"]["abstained"] == 1


def test_the_calibrator_of_the_policy_is_applied(write_run: WriteRun) -> None:
    # 0.6 becomes 0.2 by the step table, and no longer passes.
    steps = StepCalibrator(edges=(0.7,), values=(0.2, 0.9))
    run = write_run(
        pairs([0.8], [0.6]),
        test_questions=["q0"],
        calibration={"policy": policy(relevance_calibrator=steps)},
    )
    summary = SignalsSummary.read(run).values
    assert (summary["in_kb"]["abstained"], summary["left_out"]["abstained"]) == (0, 1)


def test_a_retrieval_miss_is_no_false_abstention(write_run: WriteRun) -> None:
    rows = [missed(0, 0.1), case(0, "left_out", 0.1)]
    rows += [case(1, "in_kb", 0.9), case(1, "left_out", 0.2)]
    summary = SignalsSummary.read(write_run(rows, test_questions=["q0", "q1"])).values
    assert (summary["in_kb"]["abstained"], summary["in_kb"]["tested"]) == (0, 1)
    assert summary["in_kb"]["retrieval_misses"] == 1
    assert summary["in_kb"]["retrieval_miss_rate"].value == 0.5
    assert summary["in_kb"]["retrieval_miss_rate"].n == 2


def test_the_auroc_counts_retrieval_misses_and_the_other_one_does_not(write_run: WriteRun) -> None:
    rows = [missed(0, 0.1), case(0, "left_out", 0.5)]
    rows += [case(1, "in_kb", 0.9), case(1, "left_out", 0.3)]
    summary = SignalsSummary.read(write_run(rows)).values
    assert summary["auroc"].value == 0.5
    assert summary["auroc_found_only"].value == 1.0


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

    summary = SignalsSummary.read(write_run(rows, test_questions=["q0", "q1"])).values

    assert summary["errors"] == 2
    assert summary["errors_by_type"] == {"SignalTimeoutError": 2}
    assert (summary["left_out"]["errors"], summary["left_out"]["tested"]) == (1, 1)
    assert (summary["in_kb"]["errors"], summary["in_kb"]["tested"]) == (1, 1)
    assert summary["in_kb"]["retrieval_miss_rate"].n == 1


def test_nothing_retrieved_is_declined_and_ranks_lowest(write_run: WriteRun) -> None:
    rows = [case(0, "in_kb", -0.3), case(0, "left_out", None)]
    rows += [case(1, "in_kb", -0.4), case(1, "left_out", -0.35)]

    summary = SignalsSummary.read(write_run(rows, test_questions=["q0"])).values

    assert (summary["left_out"]["abstained"], summary["left_out"]["tested"]) == (1, 1)
    assert summary["auroc"].value == 0.75
    assert summary["errors"] == 0


def test_a_policy_without_threshold_declines_everything(write_run: WriteRun) -> None:
    run = write_run(
        pairs([0.9], [0.1]), test_questions=["q0"], calibration={"policy": policy(None)}
    )

    summary = SignalsSummary.read(run).values

    assert summary["left_out"]["abstention_rate"].value == 1.0
    assert summary["in_kb"]["false_abstention_rate"].value == 1.0
    assert summary["policy"]["threshold"] is None


EVIL = (
    "</style><script>alert(1)</script><img src=x onerror=alert(1)> | **b** [x](javascript:y) "
    "![i](https://evil.example/x.png) {{ 7 * 7 }} {% raw %} `c` \u202eabc \ud800 \x00\n# head"
)


def calibrated(write_run: WriteRun, **changes: object) -> Path:
    rows = pairs([0.9, 0.8, 0.4, 0.7], [0.2, 0.6, 0.1, 0.3])
    rows += [missed(4, 0.3), case(4, "left_out", 0.25)]
    return write_run(rows, test_questions=["q0", "q1", "q2", "q4"], **changes)


@pytest.mark.usefixtures("whole_plots")
def test_text_of_a_knowledge_base_cannot_become_markup(write_run: WriteRun) -> None:
    run = write_run(
        [case("<b>&1", "in_kb", 0.9), case("<b>&1", "left_out", 0.1)],
        text=EVIL,
        manifest={"inputs": [{"name": "<script>x", "sha256": "<i>"}], "created_by": EVIL},
    )

    paths = write_report(run)

    page = Page(paths.html.read_text(encoding="utf-8"))
    assert not page.tags & {"img", "b", "i"}
    assert paths.html.read_text(encoding="utf-8").count("<script") == 2
    assert not page.handlers
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert "\u202e" not in page.text
    markdown = paths.markdown.read_text(encoding="utf-8")
    assert not re.search(r"<\w|(?<!\\)\[\w|(?<!\\)`c|https?://|\n# head", markdown)
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows} == {3, 6, 7}


@pytest.mark.slow
def test_another_threshold_is_tried_on_the_held_out_questions(write_run: WriteRun) -> None:
    run = MeasuredRun.read(calibrated(write_run), unfinished=True)
    summary = SignalsSummary(run)

    found = signals_what_if(summary)

    assert isinstance(found, WhatIf)
    own = found.at(*found.start)
    left_out, in_kb = summary.values["left_out"], summary.values["in_kb"]
    assert own["leak"][1] == left_out["tested"] == 4
    assert 1 - (share(own["leak"]) or 0) == left_out["abstention_rate"].value
    assert share(own["false_abstention"]) == in_kb["false_abstention_rate"].value
    assert own["coverage"][1] == 4 + in_kb["tested"] + 1  # and a retrieval miss
    assert found.certified


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


def test_an_answered_case_counts_in_no_rate(run: Path) -> None:
    unreviewed = read(run)
    reviewed = say(run, q0=Review.Verdict.ANSWERED, q1=Review.Verdict.UNSURE)
    before, found = unreviewed.values, reviewed.values

    assert (before["left_out"]["tested"], before["left_out"]["abstained"]) == (6, 3)
    assert [found["left_out"][name] for name in ("cases", "tested", "abstained")] == [6, 5, 3]
    assert found["in_kb"] == before["in_kb"]
    assert found["auroc"].value > before["auroc"].value
    assert reviewed.to_dict()["reviews"] == {
        "reviewed": 2, "answered": 1, "not_answered": 0, "unsure": 1,
    }  # fmt: skip
    assert "reviews" not in unreviewed.to_dict()


def test_an_answered_case_that_passes_is_no_leak(run: Path) -> None:
    found = {case.row.case_id: case for case in read(run).scored}
    reviewed = say(run, q0=Review.Verdict.ANSWERED).scored
    case = next(case for case in reviewed if case.row.case_id == "q0/left_out")

    assert found["q0/left_out"].left_out
    assert (case.left_out, case.elsewhere, case.in_kb, case.found) == (False, True, False, False)


def test_other_thresholds_are_judged_by_the_same_cases_as_the_rates(run: Path) -> None:
    reviewed = say(run, q0=Review.Verdict.ANSWERED)
    what_if = signals_what_if(reviewed)
    assert isinstance(what_if, WhatIf)
    outcomes = what_if.at(0.5, None)

    assert (outcomes["leak"][0], outcomes["leak"][1]) == (2, 5)
    assert (outcomes["false_abstention"][0], outcomes["false_abstention"][1]) == (0, 6)
    # It passes, rightly.
    assert (outcomes["coverage"][0], outcomes["coverage"][1]) == (9, 12)
    assert outcomes["wrong"][0] == 2


def error_of(run: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        SignalsSummary.read(run)
    assert caught.value.what
    assert caught.value.where
    assert caught.value.hint
    return caught.value


def test_a_policy_of_another_scorer_is_refused(write_run: WriteRun) -> None:
    other = policy(scorer=Fingerprint(kind="bi_encoder"))
    run = write_run(pairs([0.9], [0.1]), test_questions=["q0"], calibration={"policy": other})

    assert isinstance(error_of_mismatch(run), FingerprintMismatchError)


def error_of_mismatch(run: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        SignalsSummary.read(run)
    return caught.value


def test_a_question_on_both_sides_of_the_split_is_refused(write_run: WriteRun) -> None:
    run = write_run(
        pairs([0.9], [0.1]), test_questions=["q0"], calibration={"calibration_questions": ["q0"]}
    )

    assert "at once" in error_of(run).what


def test_leaving_out_a_shared_passage_goes_by_its_own_id(write_run: WriteRun) -> None:
    run = write_run([case(0, "in_kb", 0.9), case(1, "left_out", 0.5, retrieved=["q0"])])
    path = run / "questions.jsonl"
    SignalsSummary.read(run)
    shared = path.read_text(encoding="utf-8").replace(
        '"question_id": "q1"', '"question_id": "q1", "passage_id": "q0"'
    )
    path.write_text(shared, encoding="utf-8")

    assert "'q0' was retrieved although it was left out" in error_of(run).what
