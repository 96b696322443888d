"""Whether every sentence of a report of replies is true of its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgate.offline_eval.run.questions import CaseKind
from knowgate.offline_eval.run.replies import ReplySystem
from knowgate.offline_eval.suites import write_report
from tests.offline_eval.suites.ookb.replies_run import (
    SYSTEM,
    Toy,
    toy,
    toys,
    write_replies_run,
    write_rows,
)
from tests.support.report_page import Page

GUARDED = SYSTEM.model_copy(update={"system_id": "g", "guard": "policy"})


def text_of(folder: Path) -> str:
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    return page.text.replace("\u00a0", " ")


def test_a_guard_alone_is_not_praised_for_questions_that_it_was_calibrated_on(
    tmp_path: Path,
) -> None:
    questions = [
        Toy(f"q{number}", {"g": "yes" if number < 6 else "3"}, held_out=number > 3)
        for number in range(8)
    ]
    write_report(write_replies_run(tmp_path / "run", questions, [GUARDED]))

    text = text_of(tmp_path / "run")
    assert (
        "Of 4 questions whose answer is not in the knowledge base, the system abstained from 2"
        in text
    )
    assert "the questions that the guard’s policy was not calibrated on" in text


def test_of_a_guard_that_has_seen_all_questions_nothing_is_said(tmp_path: Path) -> None:
    alone = [Toy(f"q{number}", {"g": "yes"}, held_out=False) for number in range(4)]
    both = [Toy(f"q{number}", {"s": "3", "g": "yes"}, held_out=False) for number in range(4)]
    write_report(write_replies_run(tmp_path / "alone", alone, [GUARDED]))
    write_report(write_replies_run(tmp_path / "both", both, [SYSTEM, GUARDED]))

    text = text_of(tmp_path / "alone")
    assert "Nothing can be said of this guard" in text
    assert "calibrated on every question asked here" in text
    assert "Without the questions known from the guard’s calibration" not in text
    text = text_of(tmp_path / "both")
    assert "declined most often" not in text
    assert "The guard against none" not in text


@pytest.mark.slow
def test_a_guard_is_not_praised_for_a_knowledge_base_that_it_was_calibrated_on(
    tmp_path: Path,
) -> None:
    questions = [
        Toy(f"{base}{number}", {"s": "3", "g": "yes"}, base=base, held_out=base == "new")
        for base in ("new", "old")
        for number in range(3)
    ]
    write_report(write_replies_run(tmp_path / "run", questions, [SYSTEM, GUARDED]))

    text = text_of(tmp_path / "run")
    assert "new: “guard policy” abstained most often" in text
    assert "old: “guard policy”" not in text


def test_systems_with_names_that_look_alike_are_all_there(tmp_path: Path) -> None:
    systems = [
        ReplySystem(system_id=f"{'x' * 10_000}{number}", model=f"{'m' * 10_000}{number}")
        for number in range(3)
    ]
    verdicts = {one.system_id: verdict for one, verdict in zip(systems, "123", strict=True)}
    questions = [Toy(f"q{number}", verdicts) for number in range(5)]
    paths = write_report(write_replies_run(tmp_path / "run", questions, systems))

    markdown = paths.markdown.read_text(encoding="utf-8")
    for tiers in ("5 / 0 / 0", "0 / 5 / 0", "0 / 0 / 5"):
        assert tiers in markdown
    assert "… → m" in markdown


def test_what_nobody_judged_is_not_called_absent(tmp_path: Path) -> None:
    run = write_replies_run(tmp_path / "run", [toy("a", "?"), toy("b", "?", kind=CaseKind.IN_KB)])
    write_report(run)

    text = text_of(run)
    assert "Not known: nobody judged whether what was answered is right." in text
    assert "Not known: nobody judged whether replies abstain." in text
    assert "Nobody has judged whether replies abstain, nor whether they are right." in text
    assert "No such case." not in text


def test_a_new_policy_is_compared_with_the_old_one_of_another_name(tmp_path: Path) -> None:
    newer = GUARDED.model_copy(update={"system_id": "n", "guard": "newer"})
    old = [Toy(f"q{number}", {"s": "3", "g": "3"}) for number in range(4)]
    new = [Toy(f"q{number}", {"s": "3", "n": "yes"}) for number in range(4)]
    base = write_replies_run(tmp_path / "base", old, [SYSTEM, GUARDED])
    run = write_replies_run(tmp_path / "run", new, [SYSTEM, newer])
    paths = write_report(run, compare=[base])

    found = json.loads(paths.json.read_text("utf-8"))["differences"]
    assert [(one["base"], one["other"]) for one in found if one["run"]] == [("s", "s"), ("g", "n")]
    assert found[1]["abstention"]["difference"]["value"] == 1.0


def test_what_a_guard_changes_comes_first_and_two_guards_are_no_guard_against_none(
    tmp_path: Path,
) -> None:
    other = GUARDED.model_copy(update={"system_id": "o", "guard": "other"})
    questions = [Toy(f"q{number}", {"s": "3", "g": "yes", "o": "3"}) for number in range(4)]
    paths = write_report(write_replies_run(tmp_path / "run", questions, [SYSTEM, GUARDED, other]))

    lines = paths.markdown.read_text(encoding="utf-8").splitlines()
    assert lines[4] == (
        "**With its guard, “guard policy” answers wrongly in 0 % of the questions that the "
        "knowledge base does not answer (100.0 percentage points fewer than without it).**"
    )
    assert sum("With the guard (" in line for line in lines) == 2
    assert lines.count("### The guard against none") == lines.count("### Another guard") == 1


def labelled(run: Path, annotator: str, outcomes: dict[str, str]) -> None:
    (run / "labels").mkdir(exist_ok=True)
    rows = [
        {
            "reply_id": reply,
            "criterion": "abstention",
            "outcome": outcome,
            "annotator": annotator,
        }
        for reply, outcome in outcomes.items()
    ]
    write_rows(run / "labels" / f"{annotator}.jsonl", rows)


def test_a_judge_that_agrees_with_people_throughout_is_not_called_certain(tmp_path: Path) -> None:
    run = write_replies_run(tmp_path / "run", toys("yyy333"))
    people = {f"s/q{n}/left_out": "yes" if n < 3 else "no" for n in range(6)}
    labelled(run, "ana", people)

    labels = json.loads(write_report(run).json.read_text("utf-8"))["labels"]

    (judge,) = labels["judges"]
    assert judge["kappa"]["value"] == 1.0
    assert judge["kappa"]["low"] is None or judge["kappa"]["low"] < 0.9


def test_replies_to_one_question_are_not_taken_for_independent_labels(tmp_path: Path) -> None:
    questions = [Toy(f"q{n}", {"s": "yes" if n < 3 else "3", "g": "yes"}) for n in range(6)]
    run = write_replies_run(tmp_path / "run", questions, [SYSTEM, GUARDED])
    for annotator, first in (("ana", 3), ("ben", 2)):
        outcomes = {
            f"{system}/q{n}/left_out": "yes" if n < first else "no"
            for system in "sg"
            for n in range(6)
        }
        labelled(run, annotator, outcomes)

    labels = json.loads(write_report(run).json.read_text("utf-8"))["labels"]

    assert labels["agreement"]["abstention"]["replies"] == 12
    assert labels["agreement"]["abstention"]["alpha"]["n"] == 6
