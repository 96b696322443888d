from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from knowgate.guard import Fingerprint, Guarantee, Policy
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


def small_run(folder: Path, *, stored: int | None = None, **manifest: object) -> Path:
    cases = simulated_cases(10)
    few = {name: HABITS[name] for name in ("naive", "guard_naive")}
    return write_run(folder, cases, simulated_rows(cases, few), stored=stored, **manifest)


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
def test_the_opening_says_what_the_guard_costs(tmp_path: Path) -> None:
    cases = simulated_cases(30)
    habits = dict.fromkeys(("naive", "guard_naive"), HABITS["naive"])
    rows = simulated_rows(cases, habits)
    spoilt = [
        row.model_copy(update={"right": False, "answer": "no such thing"})
        if row.method == "guard_naive" and row.scenario == "conflict"
        else row.model_copy(update={"right": True})
        if row.scenario == "conflict"
        else row
        for row in rows
    ]
    folder = write_run(tmp_path / "run", cases, spoilt)

    write_report(folder)

    assert "It costs 100.0 points in “Context against memory”." in page_of(folder).text


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


def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run", stored=50)

    write_report(run)

    assert "The run is incomplete: 50 of 80 replies are there." in page_of(run).text


def test_a_run_in_which_everything_failed_says_so(tmp_path: Path) -> None:
    cases = simulated_cases(5)
    rows = simulated_rows(cases, {"naive": HABITS["naive"]}, failing=1.0)
    run = write_run(tmp_path / "run", cases, rows)

    paths = write_report(run)

    assert "Nothing can be ranked" in page_of(run).text
    assert "<svg" not in paths.html.read_text()
    assert json.loads(paths.json.read_text())["methods"]["naive"]["rely"]["value"] is None


@pytest.mark.slow
def test_guards_for_which_nothing_was_certified_are_not_praised(tmp_path: Path) -> None:
    cases = simulated_cases(12)
    rows = simulated_rows(cases, {name: HABITS[name] for name in ("naive", "guard_naive")})
    run = write_run(tmp_path / "run", cases, rows)
    promise = Guarantee(
        statement="No point certifies it.",
        risk=0.1,
        delta=0.1,
        certified=False,
        loss="",
        n=3,
        errors=3,
    )
    Policy(scorer=Fingerprint(kind="lexical"), relevance_threshold=None, guarantee=promise).save(
        run / "policy.json"
    )

    write_report(run)

    text = page_of(run).text
    assert "The guards abstain from everything, as nothing was certified." in text
    assert "Most reliable: guard" not in text
