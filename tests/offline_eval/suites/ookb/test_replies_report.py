from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import ReplySystem
from knowgate.offline_eval.suites import write_report
from tests.offline_eval.suites.ookb.replies_run import (
    SYSTEM,
    Toy,
    toys,
    write_replies_run,
    write_rows,
)
from tests.support.report_page import Page

ALL = ("html", "md", "json", "csv", "junit")
EVIL = (
    "</style><script>alert(1)</script><img src=x onerror=alert(1)> | **b** [x](javascript:y) "
    "![i](https://evil.example/x.png) {{ 7 * 7 }} {% raw %} `c` $x$ #0072b2 \u202eabc \x00\n# head"
)
GUARDED = SYSTEM.model_copy(update={"system_id": "g", "guard": "policy"})


def mixed(folder: Path, **changes: object) -> Path:
    """Two systems, both kinds of cases, topics, kinds of failure, one error."""
    questions = [
        Toy(
            f"q{number}",
            {"s": "3" if number % 3 else "1", "g": "yes" if number % 4 else "3"},
            topic="signs" if number % 2 else "parking",
        )
        for number in range(12)
    ]
    questions += [
        Toy(f"k{number}", {"s": "1", "g": "yes" if number % 2 else "1"}, kind=CaseKind.IN_KB)
        for number in range(6)
    ]
    questions.append(Toy("e", {"s": "error", "g": "yes"}))
    failures = {"s/q1/left_out": "fabrication", "s/q2/left_out": "contradiction"}
    return write_replies_run(folder, questions, [SYSTEM, GUARDED], failures=failures, **changes)  # type: ignore[arg-type]


def hostile(folder: Path) -> Path:
    """Every text that somebody else decides is hostile."""
    systems = [
        ReplySystem(system_id=f"{EVIL}{number}", model=EVIL, prompt=f"{number}{EVIL}", guard=EVIL)
        for number in range(2)
    ]
    verdicts = {systems[0].system_id: "3", systems[1].system_id: "yes"}
    questions = [
        Toy(f"{EVIL}{number}", verdicts, kind=kind, base=EVIL, topic=f"{number}{EVIL}", text=EVIL)
        for number, kind in enumerate((CaseKind.LEFT_OUT, CaseKind.IN_KB, CaseKind.SYNTHETIC))
    ]
    run = write_replies_run(
        folder,
        questions,
        systems,
        response=EVIL,
        judge=EVIL,
        settings={EVIL: EVIL},
        failures={f"{systems[0].system_id}/{questions[0].name}/left_out": EVIL},
    )
    found = {"question_id": questions[0].name, "passage_id": EVIL, "similarity": 1, "how": EVIL}
    write_rows(run / "left_out_check.jsonl", [found])
    return run


def text_of(folder: Path) -> str:
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    return page.text.replace("\u00a0", " ")


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plots")
def test_the_page_needs_nothing_from_outside_and_no_script(tmp_path: Path) -> None:
    html = write_report(mixed(tmp_path / "run")).html.read_text(encoding="utf-8")

    page = Page(html)
    assert "script" not in page.tags
    assert not page.handlers
    assert all(reference.startswith("#") for reference in page.references)
    assert not re.search(r"url\((?!#)|@import|https?:", html)
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plots")
def test_text_of_others_cannot_become_markup(tmp_path: Path) -> None:
    paths = write_report(hostile(tmp_path / "run"), formats=ALL)

    page = Page(paths.html.read_text(encoding="utf-8"))
    assert not page.tags & {"script", "img", "b", "i"}
    assert not page.handlers
    assert "<script>alert(1)</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert "\u202e" not in page.text
    markdown = paths.markdown.read_text(encoding="utf-8")
    assert not re.search(r"<\w|(?<!\\)\[\w|(?<!\\)`c|https?://|\n# head", markdown)
    root = ElementTree.fromstring(paths.junit.read_bytes())
    assert {one.tag for one in root.iter()} <= {"testsuites", "testsuite", "testcase", "system-out"}
    with paths.csv.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    assert len({len(row) for row in rows}) == 1
    assert len(rows) == 7


def test_an_estimate_is_named_as_one(tmp_path: Path) -> None:
    run = write_replies_run(tmp_path / "run", toys("y12"), judge="estimate", estimate=True)
    write_report(run)

    assert "is an offline estimate and not a judgement" in text_of(run)


def test_questions_seen_in_calibration_are_named_and_told_apart(tmp_path: Path) -> None:
    questions = [
        Toy(f"q{number}", {"s": "3", "g": "yes"}, held_out=number > 3) for number in range(8)
    ]
    run = write_replies_run(tmp_path / "run", questions, [SYSTEM, GUARDED])
    write_report(run)

    text = text_of(run)
    assert "The guard’s policy was calibrated on 4 of the 8 questions." in text
    assert "Without the questions known from the guard’s calibration" in text


def test_shared_passages_and_few_questions_are_named(tmp_path: Path) -> None:
    run = write_replies_run(tmp_path / "run", toys("yyyy"))
    questions = run / "questions.jsonl"
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    questions.unlink()
    write_rows(questions, [{**row, "passage_id": "p0"} for row in rows])
    write_report(run)

    text = text_of(run)
    assert "4 questions have their answers in 1 passage." in text
    assert "Only 4 questions outside the knowledge base" in text


def test_runs_without_a_common_system_or_question_are_not_compared(tmp_path: Path) -> None:
    run = mixed(tmp_path / "run")
    systems = [
        ReplySystem(system_id=name, model=name, prompt="p", retrieval="r") for name in ("a", "b")
    ]
    verdicts = {"a": "yes", "b": "yes"}
    strange = write_replies_run(tmp_path / "strange", [Toy("q0", verdicts)], systems)
    other = write_replies_run(tmp_path / "other", [Toy("z", {"s": "yes", "g": "yes"})], [SYSTEM])

    with pytest.raises(InputError, match="no system of this run"):
        write_report(run, compare=[strange])
    with pytest.raises(InputError, match="no question in common"):
        write_report(run, compare=[other])
    assert not (run / "report.html").exists()


def test_a_guard_is_not_praised_for_questions_that_it_was_calibrated_on(tmp_path: Path) -> None:
    questions = [
        Toy(
            f"q{number}",
            {"s": "yes" if number == 7 else "3", "g": "yes" if number < 4 else "3"},
            held_out=number > 3,
        )
        for number in range(8)
    ]
    write_report(write_replies_run(tmp_path / "run", questions, [SYSTEM, GUARDED]))

    text = text_of(tmp_path / "run")
    assert "“guard policy” least often, 0 of 4" in text
    assert "questions known from a guard’s calibration do not count for it" in text
    assert "4 cases in both, without 4 known from calibration" in text
