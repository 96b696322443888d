"""Calibrations on the same data are counted, and their files go together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import Leak
from knowgate.offline_eval.policies import Calibrated, calibrate_records, calibrate_run
from knowgate.offline_eval.policies._attempts import AttemptHistory
from knowgate.offline_eval.policies.records import CalibrationSet
from knowgate.offline_eval.run.measured_run import MeasuredRun
from tests.offline_eval.cli.commands import read_lines, write_lines
from tests.offline_eval.suites.ookb.toy import run_toy, write_toy_questions


def test_a_repetition_has_its_old_number_and_what_is_new_the_next(tmp_path: Path) -> None:
    history = AttemptHistory(tmp_path / "calibrations.jsonl")
    asked = [("a", {"risk": 0.1}), ("a", {"risk": 0.2}), ("b", {"risk": 0.1})]
    for number, (data, settings) in enumerate(asked, start=1):
        assert history.number(data, settings) == number
        assert history.record(data, settings, number)
    before = (tmp_path / "calibrations.jsonl").read_bytes()

    again = AttemptHistory(tmp_path / "calibrations.jsonl")
    assert [again.number(*one) for one in asked] == [1, 2, 3]
    assert again.record(*asked[1], 2)
    assert (tmp_path / "calibrations.jsonl").read_bytes() == before


def test_a_number_that_another_process_took_meanwhile_is_not_given_twice(tmp_path: Path) -> None:
    mine, other = (AttemptHistory(tmp_path / "c.jsonl") for _ in range(2))
    number = mine.number("mine", {})
    assert other.record("other", {}, 1)

    assert not mine.record("mine", {}, number)
    assert mine.number("mine", {}) == 2
    assert mine.record("mine", {}, 2)


def test_an_attempt_on_two_runs_has_a_number_that_is_free_in_both(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "c.jsonl", tmp_path / "b" / "c.jsonl"
    for number in (1, 2):
        assert AttemptHistory(second).record(f"second {number}", {}, number)
    assert AttemptHistory(first, second).number("both", {}) == 3
    assert not AttemptHistory(first, second).record("both", {}, 1)
    assert AttemptHistory(first, second).record("both", {}, 3)

    for history in (AttemptHistory(first), AttemptHistory(second, first, first)):
        assert history.number("both", {}) == 3
        assert history.number("next", {}) == 4
    assert AttemptHistory(second).number("second 1", {}) == 1


def test_an_attempt_that_a_kill_left_in_one_history_never_becomes_cheaper(tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    assert AttemptHistory(first).record("both", {}, 1)  # the kill came before the second file
    both = AttemptHistory(first, second)
    assert both.number("both", {}) == 1
    assert both.number("next", {}) == 2

    # Its number is now taken in the other file: it gets the next one there, and keeps its line.
    assert AttemptHistory(second).record("alone", {}, 1)
    assert both.number("both", {}) == 2
    assert both.record("both", {}, 2)
    assert both.number("both", {}) == 2
    assert [json.loads(line)["number"] for line in first.open(encoding="utf-8")] == [1]
    assert [json.loads(line)["number"] for line in second.open(encoding="utf-8")] == [1, 2]


RunOf = Callable[[int], Path]


@pytest.fixture
def run_of(tmp_path: Path) -> RunOf:
    """A run of thirty questions, of which rules made the first so many."""

    def made(count: int) -> Path:
        path = write_toy_questions(tmp_path / "kb.jsonl", 30)
        rows = read_lines(path)
        for row in rows[:count]:
            row["made_by"] = "rules"
        return run_toy(write_lines(path, rows), tmp_path / "run")

    return made


def calibrated(run: Path, *, accept: bool = False) -> Calibrated:
    return calibrate_run(
        run, run.parent / "policy.json", Leak(0.3), delta=0.1, accept_generated=accept
    )


def test_a_run_and_its_records_know_who_made_each_question(run_of: RunOf) -> None:
    run = run_of(4)

    assert [row.get("made_by") for row in read_lines(run / "questions.jsonl")[3:5]] == [
        "rules",
        None,
    ]
    assert sum(bool(one.made_by) for one in MeasuredRun.read(run).questions.values()) == 4
    found = CalibrationSet.of_run(run)
    assert found.generated == pytest.approx(4 / 30)
    # The margin is learned from people's questions alone.
    assert len(found.kept_sets) <= 26


def test_more_than_a_tenth_of_them_is_refused_with_the_next_step(run_of: RunOf) -> None:
    found = calibrated(run_of(4))

    (problem,) = [one for one in found.problems if one.kind == "generated"]
    assert problem.what.startswith("Rules made 13 % of the questions behind this")
    assert "--accept-generated" in problem.hint
    assert not Path(found.measured.source).with_name("policy.json").exists()


def test_no_document_is_in_two_parts_of_a_calibration() -> None:
    cases = tuple(
        CalibrationRecord(str(i), i % 7, None, i % 3 > 0, None, f"d{i % 50}") for i in range(500)
    )

    found = calibrate_records(CalibrationSet(cases, "drawn"), risk=0.5, delta=0.1, share=0.8)

    groups = [{case.group for case in part} for part in (found.learn, found.certify, found.test)]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 50
