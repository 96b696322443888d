from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from knowgate.guard.fingerprint import CascadeRule
from knowgate.offline_eval.report.what_if import WhatIf
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.ookb._signals_report import signals_what_if
from knowgate.offline_eval.suites.ookb._signals_summary import (
    summarise_signals,
)
from tests.offline_eval.suites.ookb.written_rows import (
    WriteRun,
    case,
    failed,
    missed,
    pairs,
    policy,
)
from tests.offline_eval.web.runs import replies_run
from tests.support.browser import chromium, page_of, serious_findings
from tests.support.report_page import Page

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


def test_the_ten_worst_cases_come_in_order(write_run: WriteRun) -> None:
    left_out = [number / 20 for number in range(12)]
    run = write_run(pairs([0.9 - number / 20 for number in range(12)], left_out))

    markdown = write_report(run).markdown.read_text(encoding="utf-8")

    fooled = re.findall(r"q(\d+)/left_out", markdown)
    assert fooled == [str(number) for number in range(11, 1, -1)]
    assert re.findall(r"q(\d+)/in_kb", markdown) == fooled


def test_a_run_of_errors_says_so_and_draws_nothing(write_run: WriteRun) -> None:
    run = write_run([failed(0, "in_kb"), failed(0, "left_out")])

    html = write_report(run).html.read_text(encoding="utf-8")

    assert "Nothing could be measured" in Page(html).text
    assert "SignalTimeoutError: 2" in html
    assert "<svg" not in html


def test_one_question_without_passages_still_makes_a_report(write_run: WriteRun) -> None:
    run = write_run([case(0, "left_out", None)])

    text = Page(write_report(run).html.read_text(encoding="utf-8")).text

    assert "Nothing was retrieved." in text


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.5, None])
def test_answers_from_memory_are_named_as_declared_and_not_certified(
    write_run: WriteRun, threshold: float | None
) -> None:
    wide = policy(
        threshold, confidence_threshold=0.7, allowed_routes=("follow_context", "answer", "abstain")
    )
    paths = write_report(calibrated(write_run, calibration={"policy": wide}))

    row = "without context, it answers from memory from confidence"
    page = Page(paths.html.read_text(encoding="utf-8")).text
    text = paths.markdown.read_text(encoding="utf-8")
    assert f"{row} 0.7 (declared, not certified, not measured here)" in page
    assert f"| {row} | 0.7 (declared, not certified, not measured here) |" in text
    for words in ("Answers from memory", "The policy also asks for confidence or conflict"):
        assert words in page
        assert words in text
    # Without a threshold for contexts, it still does not decline everything.
    assert ("answers from memory alone, or abstains" in page) == (threshold is None)


def test_a_passage_without_text_has_no_score(write_run: WriteRun) -> None:
    rows = [case(0, "in_kb", 0.9, retrieved=["q0", "q1"], scores=[0.9, None])]

    text = write_report(write_run(rows)).markdown.read_text(encoding="utf-8")

    assert "- – · (text not stored in the run) (q1)" in text


@pytest.mark.slow
def test_another_threshold_is_tried_on_the_held_out_questions(write_run: WriteRun) -> None:
    run = MeasuredRun.read(calibrated(write_run), unfinished=True)
    summary = summarise_signals(run)

    found = signals_what_if(summary)

    assert isinstance(found, WhatIf)
    own = found.at(*found.start)
    assert own.leak.whole == summary.left_out.tested == 4
    assert 1 - (own.leak.value or 0) == summary.left_out.abstention_rate.value
    assert own.false_abstention.value == summary.in_kb.abstention_rate.value
    assert own.coverage.whole == 4 + summary.in_kb.tested + 1  # and a retrieval miss
    assert found.certified


def test_without_a_policy_the_raw_score_is_moved_and_nothing_certified(
    write_run: WriteRun,
) -> None:
    run = MeasuredRun.read(write_run(pairs([3.5, 2.5], [-1.0, -2.0])), unfinished=True)

    found = signals_what_if(summarise_signals(run))

    assert isinstance(found, WhatIf)
    assert not found.certified
    assert not found.has_point
    assert found.start == (2.5, None)  # which tells all of them apart
    assert found.at(2.5, None).leak.value == found.at(2.5, None).false_abstention.value == 0.0


def test_a_run_of_a_cascade_says_why_no_other_threshold_can_be_tried(write_run: WriteRun) -> None:
    run = MeasuredRun.read(write_run(pairs([3.5, 2.5], [-1.0, -2.0])), unfinished=True)
    settings = run.manifest.settings
    rule = CascadeRule(threshold=0.5, reach=0.1)
    scorer = rule.fingerprint(settings.scorer, settings.scorer)
    changed = {"settings": settings.model_copy(update={"scorer": scorer})}
    cascade = replace(run, manifest=run.manifest.model_copy(update=changed))

    found = signals_what_if(summarise_signals(cascade))

    assert isinstance(found, str)
    assert "cascade of two scorers" in found


@pytest.mark.parametrize(
    ("written", "step"),
    [
        (lambda write: write(pairs([0.9, 0.8], [0.2, 0.6])), "Calibrate"),
        (calibrated, "Try it without acting"),
        (lambda write: calibrated(write, calibration={"policy": policy(None)}), "Make something"),
        (lambda write: write([failed(0, "in_kb"), failed(0, "left_out")]), "Find out what failed"),
        (lambda write: calibrated(write, manifest={"cases": 224}), "Complete the run"),
        (lambda write: write([missed(n, 0.3) for n in range(5)]), "Look at retrieval first"),
    ],
    ids=["measured", "certified", "uncertified", "failed", "cut short", "misses"],
)
def test_the_report_ends_in_what_to_do_next(
    write_run: WriteRun, written: Callable[[WriteRun], Path], step: str
) -> None:
    markdown = write_report(written(write_run)).markdown.read_text(encoding="utf-8")
    last = markdown.rpartition("\n## ")[2]
    assert last.startswith("What to do next")
    assert step in last


@pytest.mark.slow
def test_on_a_telephone_a_page_is_short_before_its_details(
    write_run: WriteRun, tmp_path: Path, socket_enabled: None
) -> None:
    rows = pairs([0.9, 0.8, 0.4, 0.7] * 25, [0.2, 0.6, 0.1, 0.3] * 25)
    measured = write_run(rows, test_questions=[f"q{n}" for n in range(0, 100, 2)])
    replies = replies_run(tmp_path / "replies", questions=100)
    with chromium() as browser, page_of(browser, viewport={"width": 400, "height": 800}) as page:
        for run in (measured, replies):
            page.goto(write_report(run).html.resolve().as_uri())
            details = page.locator("details.part").first.bounding_box()
            assert details["y"] < 12_000
            assert page.evaluate("document.documentElement.scrollHeight") < 12_000
            assert page.locator("h2").last.inner_text() == "What to do next"
            assert serious_findings(page) == []
