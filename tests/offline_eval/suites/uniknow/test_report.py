from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from knowgate.guard import Fingerprint, Guarantee, InputError, Policy
from knowgate.offline_eval.suites import write_report
from knowgate.offline_eval.suites.uniknow._cases import PAPER_KINDS, ContextKind, Knowledge
from tests.offline_eval.suites.uniknow.simulated import (
    HABITS,
    simulated_cases,
    simulated_rows,
    write_run,
)
from tests.support.plots import full_plots
from tests.support.report_page import Page

METHODS = list(HABITS)
SCENARIOS = ("conflict", "external_only", "parametric_only", "unknown", "all")
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
    cases = simulated_cases(60, kinds=tuple(ContextKind))
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


@pytest.mark.slow
def test_the_json_has_every_number_with_its_interval_under_its_name(written: Path) -> None:
    value = json.loads((written / "report.json").read_text(encoding="utf-8"))

    assert value["suite"] == "uniknow"
    for method in METHODS:
        found = value["methods"][method]
        numbers = [found[name] for name in ("acc", "truth", "rely", "ans")]
        for scenario in SCENARIOS:
            numbers += [
                found["scenarios"][scenario][name] for name in ("em", "acc", "truth", "rely", "ans")
            ]
        numbers += [
            found["errors"][name]
            for name in ("contextual", "parametric", "false_abstention", "other")
        ]
        for number in numbers:
            assert set(number) == {"value", "low", "high", "n"}
            assert 0 <= number["low"] <= number["value"] <= number["high"] <= 1
            assert number["n"] > 0
        assert found["rely"] == found["scenarios"]["all"]["rely"]


def test_the_json_has_differences_beyond_kinds_failures_and_published_rows(written: Path) -> None:
    value = json.loads((written / "report.json").read_text(encoding="utf-8"))

    assert set(value["differences"]["guard_naive"]) == {
        "naive",
        "prompting",
        "retrobust",
        "kaft",
        "lm_uniknow",
    }
    assert set(value["beyond"]) == {"one_of_k", "two_in_conflict", "none_of_k", "untrue"}
    assert value["beyond"]["untrue"]["naive"]["misled"]["value"] > 0
    assert sum(value["failures"]["naive"].values()) == value["methods"]["naive"]["failed"]
    assert value["published"]["methods"]["lm_uniknow"]["em"]["all"] == 0.767
    assert "lm_uniknow@abstention=0.5" in value["methods"]


def test_the_page_needs_nothing_from_outside_and_no_script(written: Path) -> None:
    html = (written / "report.html").read_text(encoding="utf-8")

    page = Page(html)
    assert "script" not in page.tags
    assert not page.handlers
    assert all(reference.startswith("#") for reference in page.references)
    assert not re.search(r"url\((?!#)|@import|https?:", html)
    assert len(page.ids) == len(set(page.ids))


def test_the_page_shows_all_plots_and_says_what_was_tested(written: Path) -> None:
    html = (written / "report.html").read_text(encoding="utf-8")

    assert html.count("<svg") == 5
    text = Page(html).text
    for words in (
        "What was tested",
        "Most reliable:",
        "The guard over naive abstains from",
        "Published, other model, for orientation",
        "LanguageModelTimeoutError",
        "An untrue passage",
        "Cases worth reading",
    ):
        assert words in text


@pytest.mark.slow
def test_the_opening_says_what_the_guard_costs(tmp_path: Path) -> None:
    cases = simulated_cases(60)
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


def test_the_markdown_has_the_same_tables(written: Path) -> None:
    text = (written / "report.md").read_text(encoding="utf-8")

    for heading in ("What was tested", "Reliability", "What went wrong", "Failures"):
        assert f"## {heading}\n" in text
    lines = [line for line in text.splitlines() if line.startswith("| guard_naive |")]
    # Situations with mean and agreement, Rely and its parts, errors.
    assert [line.count("|") for line in lines[:3]] == [8, 6, 6]


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plots")
def test_a_second_report_has_the_same_bytes(full_run: Path, written: Path, tmp_path: Path) -> None:
    paths = write_report(full_run, out_dir=tmp_path)

    for path in (paths.html, paths.markdown, paths.json):
        assert path.read_bytes() == (written / path.name).read_bytes()


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


def test_a_run_of_an_unknown_suite_is_refused_with_what_to_do(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run")
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "suite": "quiz"}))

    with pytest.raises(InputError, match="quiz") as caught:
        write_report(run, out_dir=tmp_path / "out")

    assert "knowgate eval uniknow" in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_every_kind_of_context_shows_at_most_ten_cases(written: Path) -> None:
    text = (written / "report.md").read_text(encoding="utf-8")

    shown = re.findall(r"### .*: (\d+) of (\d+) that some", text)
    assert len(shown) == len(ContextKind)
    assert all(int(few) <= 10 and int(few) <= int(all_) for few, all_ in shown)
    assert len(PAPER_KINDS) < len(ContextKind)


def test_methods_that_could_not_be_run_are_named_with_the_reason(tmp_path: Path) -> None:
    run = small_run(tmp_path / "run", left_out={"cad": "the model gives no logits"})

    write_report(run)

    assert "the model gives no logits" in page_of(run).text
    assert "the model gives no logits" in (run / "report.md").read_text()


def test_a_lone_surrogate_in_a_reply_stops_no_report(tmp_path: Path) -> None:
    cases = simulated_cases(4)
    rows = simulated_rows(cases, {"naive": HABITS["naive"]})
    said = {"answer": "a\ud800b", "right": False, "abstained": False}
    run = write_run(tmp_path / "run", cases, rows)
    lines = [row.model_dump(mode="json") for row in rows]
    lines[0] |= said
    (run / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    paths = write_report(run)

    assert "a\ufffdb" in paths.html.read_text(encoding="utf-8")


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
