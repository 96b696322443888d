from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from knowgate.guard import InputError
from knowgate.guard.policy import CascadeRule
from knowgate.offline_eval.report import WhatIf
from knowgate.offline_eval.run import MeasuredRun
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.ookb._signals_report import signals_what_if
from knowgate.offline_eval.suites.ookb._signals_summary import (
    read_signals,
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


@pytest.mark.slow
def test_the_headline_gives_counts_rates_and_intervals(write_run: WriteRun) -> None:
    paths = write_report(calibrated(write_run))

    text = Page(paths.html.read_text(encoding="utf-8")).text
    assert (
        "Of 4 questions whose answer had been left out of the knowledge base, the guard "
        "abstained from 3 (75 %, 95 % interval 30 % to 95 %)." in text.replace("\u00a0", " ")
    )
    assert "it falsely abstained from 1" in text
    assert "At most 10 % pass." in text
    assert "Not guaranteed" in text


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plots")
def test_the_page_needs_nothing_from_outside_and_has_one_script(
    write_run: WriteRun,
) -> None:
    html = write_report(calibrated(write_run)).html.read_text(encoding="utf-8")

    page = Page(html)
    assert re.findall(r"<script[^>]*>", html) == [
        '<script type="application/json" id="what-if-data">',
        "<script>",
    ]
    assert not page.handlers
    assert all(reference.startswith("#") for reference in page.references)
    assert not re.search(r"url\((?!#)|@import|https?:", html)
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plots")
def test_three_plots_stand_in_the_page_with_the_threshold(write_run: WriteRun) -> None:
    html = write_report(calibrated(write_run)).html.read_text(encoding="utf-8")

    assert html.count("<svg") == 4  # one of them of the sliders
    for words in ("threshold 0.50", "risk asked for", "in knowledge base, not retrieved (1)"):
        assert words in html


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
@pytest.mark.usefixtures("whole_plots")
def test_the_same_run_gives_the_same_bytes_wherever_it_lies(
    write_run: WriteRun, tmp_path: Path
) -> None:
    run = calibrated(write_run)
    moved = shutil.copytree(run, tmp_path / "elsewhere" / "moved")

    first, second = write_report(run), write_report(moved, out_dir=tmp_path / "out")

    assert first.html.read_bytes() == second.html.read_bytes()
    assert first.markdown.read_bytes() == second.markdown.read_bytes()
    assert first.json.read_bytes() == second.json.read_bytes()
    assert second.json == tmp_path / "out" / "report.json"


@pytest.mark.slow
def test_the_json_file_holds_the_summary(write_run: WriteRun) -> None:
    run = calibrated(write_run)

    value = json.loads(write_report(run).json.read_text(encoding="utf-8"))

    assert value.pop("failed") == 0.0
    assert value == read_signals(run).to_dict()
    assert value["schema_version"] == 1
    assert value["suite"] == "ookb"
    assert value["inputs"] == [{"name": "kb.json", "sha256": "0" * 64}]
    assert value["settings"]["top_k"] == 5


def test_the_ten_worst_cases_come_in_order(write_run: WriteRun) -> None:
    left_out = [number / 20 for number in range(12)]
    run = write_run(pairs([0.9 - number / 20 for number in range(12)], left_out))

    markdown = write_report(run).markdown.read_text(encoding="utf-8")

    fooled = re.findall(r"q(\d+)/left_out", markdown)
    assert fooled == [str(number) for number in range(11, 1, -1)]
    assert re.findall(r"q(\d+)/in_kb", markdown) == fooled


@pytest.mark.slow
def test_retrieval_misses_are_no_worst_cases(write_run: WriteRun) -> None:
    markdown = write_report(calibrated(write_run)).markdown.read_text(encoding="utf-8")

    assert "q4/in_kb" not in markdown
    assert "q4/left_out" in markdown


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
def test_an_uncertified_policy_is_named_as_such(write_run: WriteRun) -> None:
    run = calibrated(write_run, calibration={"policy": policy(None)})

    text = Page(write_report(run).html.read_text(encoding="utf-8")).text

    assert "No threshold met the target" in text
    assert "Nothing is certified" in text


def test_a_run_cut_short_is_named_as_such(write_run: WriteRun) -> None:
    run = calibrated(write_run, manifest={"cases": 224})

    text = write_report(run).markdown.read_text(encoding="utf-8")

    assert "The run is incomplete: 10 of 224 cases are there." in text
    assert "Start the same 'knowgate measure' again" in text


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


def test_a_policy_without_answers_from_memory_does_not_speak_of_them(write_run: WriteRun) -> None:
    paths = write_report(calibrated(write_run))

    assert "from memory" not in paths.html.read_text(encoding="utf-8")
    assert "from memory" not in paths.markdown.read_text(encoding="utf-8")


def test_a_perfect_separation_is_shown_with_numbers(write_run: WriteRun) -> None:
    text = write_report(write_run(pairs([0.9, 0.8], [0.2, 0.1]))).markdown.read_text("utf-8")

    assert "| AUROC | 1.000 | 0.342 to 1.000 | 2 |" in text
    assert "95 % interval 0.342 to 1.000, 2 questions" in text.replace("\u00a0", " ")


def test_without_calibration_the_report_says_how_to_get_the_rates(write_run: WriteRun) -> None:
    paths = write_report(write_run(pairs([0.9, 0.2], [0.5, 0.1])))

    for path in (paths.html, paths.markdown):
        text = path.read_text(encoding="utf-8")
        assert "There is no policy yet." in text
        assert text.count("knowgate calibrate") >= 3


@pytest.mark.slow
def test_a_place_that_cannot_be_written_is_an_input_error(
    write_run: WriteRun, tmp_path: Path
) -> None:
    run = calibrated(write_run)
    (tmp_path / "file").write_text("x", encoding="utf-8")

    with pytest.raises(InputError, match="cannot be written"):
        write_report(run, out_dir=tmp_path / "file")


@pytest.mark.slow
def test_a_policy_by_hand_promises_nothing(write_run: WriteRun) -> None:
    run = calibrated(write_run, calibration={"policy": policy(None, guarantee=None)})

    text = Page(write_report(run).html.read_text(encoding="utf-8")).text

    assert "lets no context pass" in text
    assert "nothing is guaranteed" in text
    assert "met the target" not in text


def test_a_passage_without_text_has_no_score(write_run: WriteRun) -> None:
    rows = [case(0, "in_kb", 0.9, retrieved=["q0", "q1"], scores=[0.9, None])]

    text = write_report(write_run(rows)).markdown.read_text(encoding="utf-8")

    assert "- – · (text not stored in the run) (q1)" in text


@pytest.mark.slow
def test_the_bound_that_was_asked_for_is_not_rounded(write_run: WriteRun) -> None:
    fields = policy(bound=(0.025, 0.125), counts=(100, 0))
    run = write_run(pairs([0.9], [0.1]), test_questions=["q0"], calibration={"policy": fields})

    text = write_report(run).markdown.read_text(encoding="utf-8").replace("\u00a0", " ")

    assert "| bound asked for (α) | 2.5 % |" in text
    assert "| chance that the bound fails (δ) | 12.5 % |" in text


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
