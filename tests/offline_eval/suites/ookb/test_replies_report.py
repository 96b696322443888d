from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import ReplySystem
from knowgate.offline_eval.suites import write_report
from tests.offline_eval.suites.ookb.replies_run import SYSTEM, Toy, write_replies_run, write_rows
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
    assert "Without the questions known from the guard’s calibration" in text
    numbers = json.loads((tmp_path / "run" / "report.json").read_text())["systems"][1]
    assert (numbers["held_out"]["abstained"], numbers["held_out"]["n"]) == (0, 4)
    assert "4 cases in both, without 4 known from calibration" in text
