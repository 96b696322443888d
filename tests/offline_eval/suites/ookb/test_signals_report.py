from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowgate.offline_eval.report.what_if import WhatIf
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.ookb._signals_report import signals_what_if
from knowgate.offline_eval.suites.ookb._signals_summary import SignalsSummary
from tests.offline_eval.suites.ookb.written_rows import (
    WriteRun,
    case,
    missed,
    pairs,
)
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


@pytest.mark.slow
def test_another_threshold_is_tried_on_the_held_out_questions(write_run: WriteRun) -> None:
    run = MeasuredRun.read(calibrated(write_run), unfinished=True)
    summary = SignalsSummary(run)

    found = signals_what_if(summary)

    assert isinstance(found, WhatIf)
    own = found.at(*found.start)
    assert own.leak.whole == summary.left_out.tested == 4
    assert 1 - (own.leak.value or 0) == summary.left_out.abstention_rate.value
    assert own.false_abstention.value == summary.in_kb.abstention_rate.value
    assert own.coverage.whole == 4 + summary.in_kb.tested + 1  # and a retrieval miss
    assert found.certified
