from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.uniknow._cases import ContextKind, Knowledge
from tests.offline_eval.suites.uniknow.simulated import (
    HABITS,
    simulated_cases,
    simulated_rows,
    write_run,
)
from tests.support.plots import full_plots
from tests.support.report_page import Page

TEXT = (
    "</style><script>alert(1)</script><img src=x onerror=alert(1)> | **b** [x](javascript:y) "
    "![i](https://evil.example/x.png) {{ 7 * 7 }} {% raw %} `c` \u202eabc \x00\n# head"
)


@pytest.fixture(scope="module")
def full_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of all methods, ablations, kinds beyond the paper, and some failures."""
    habits = dict(HABITS)
    for variant in ("abstention=0.0", "abstention=0.5", "without=conflicting"):
        habits[f"lm_uniknow@{variant}"] = HABITS["lm_uniknow"]
    cases = simulated_cases(20, kinds=tuple(ContextKind))
    folder = tmp_path_factory.mktemp("runs") / "run"
    return write_run(folder, cases, simulated_rows(cases, habits, failing=0.01))


@pytest.fixture(scope="module")
def written(full_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of that run."""
    folder = tmp_path_factory.mktemp("report")
    with full_plots():
        write_report(full_run, out_dir=folder)
    return folder


def page_of(folder: Path) -> Page:
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def test_the_page_needs_nothing_from_outside_and_no_script(written: Path) -> None:
    html = (written / "report.html").read_text(encoding="utf-8")

    page = Page(html)
    assert "script" not in page.tags
    assert not page.handlers
    assert all(reference.startswith("#") for reference in page.references)
    assert not re.search(r"url\((?!#)|@import|https?:", html)
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plots")
def test_text_of_questions_replies_and_names_cannot_become_markup(tmp_path: Path) -> None:
    cases = simulated_cases(8, text=TEXT)
    habits = {"naive": HABITS["naive"], "<script>x": HABITS["kaft"]}
    rows = simulated_rows(cases, habits)
    said = {"answer": TEXT, "right": False, "abstained": False}
    changed = [row.model_copy(update=said) for row in rows[:3]]
    run = write_run(tmp_path / "run", cases, [*changed, *rows[3:]])

    paths = write_report(run)

    page = Page(paths.html.read_text(encoding="utf-8"))
    assert not page.tags & {"script", "img", "b", "i"}
    assert not page.handlers
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert "\u202e" not in page.text
    markdown = paths.markdown.read_text(encoding="utf-8")
    assert not re.search(r"<\w|(?<!\\)\[\w|(?<!\\)`c|https?://|\n# head", markdown)


def test_an_empty_scenario_is_null_and_said(tmp_path: Path) -> None:
    cases = [one for one in simulated_cases(20) if one.knowledge is not Knowledge.KNOWN]
    run = write_run(tmp_path / "run", cases, simulated_rows(cases, {"naive": HABITS["naive"]}))

    paths = write_report(run)

    scenarios = json.loads(paths.json.read_text())["methods"]["naive"]["scenarios"]
    empty = {"value": None, "low": None, "high": None, "n": 0}
    assert scenarios["conflict"]["em"] == scenarios["parametric_only"]["rely"] == empty
    assert scenarios["all"]["em"]["value"] is None
    assert scenarios["all"]["rely"]["value"] is not None
    assert "No case of this run falls under “Context against memory”" in page_of(run).text
