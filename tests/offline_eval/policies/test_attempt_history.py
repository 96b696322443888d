"""Calibrations on the same data are counted, each once."""

from __future__ import annotations

import json
from pathlib import Path

from knowgate.offline_eval.policies._attempts import AttemptHistory


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
