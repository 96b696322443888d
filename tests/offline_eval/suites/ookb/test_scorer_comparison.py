"""Several scorers on the same cases: numbers by hand, and which one is to be taken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from knowgate.calibration import Interval
from knowgate.offline_eval.run.measured_run import MeasuredRun
from knowgate.offline_eval.suites.ookb.scorer_comparison import (
    MeasuredScorer,
    Outcome,
    ScorerComparison,
    ScorerDifference,
    ScorerNumbers,
    TimedRow,
    choose_scorer,
    scorers_document,
)
from tests.offline_eval.suites.ookb.written_rows import Row, WriteRun, case, failed, missed, pairs


def _scorer(write_run: WriteRun, tmp_path: Path, name: str, rows: list[Row]) -> MeasuredScorer:
    folder = write_run(rows)
    spent = [TimedRow.model_validate({**rows[0], "milliseconds": ms}) for ms in (2.0, 8.0, 3.0)]
    kept = folder.rename(tmp_path / f"kept-{name}")
    return name, MeasuredRun.read(kept, unfinished=True), spent


def test_the_numbers_are_those_computed_by_hand(write_run: WriteRun, tmp_path: Path) -> None:
    one = _scorer(write_run, tmp_path, "one", pairs([4, 3, 2, 1], [2.5, 0, -1, -2]))
    rows = pairs([4, 1, 2, 3], [2.5, 2.5, 0, 0])
    rows[-1] = failed(3, "left_out")  # abstained from: below all others
    other = _scorer(write_run, tmp_path, "other", rows)

    found = ScorerComparison([one, other], risk=0.25)

    first, second = found.scorers
    assert (first.auroc.value, second.auroc.value) == (14 / 16, 12 / 16)
    assert (first.false_abstention.value, second.false_abstention.value) == (0.0, 0.5)
    assert (first.failed, second.failed, second.cases) == (0, 1, 8)
    assert second.errors == {"SignalTimeoutError": 1}
    assert (first.milliseconds, first.calls_per_question) == (3.0, 0.0)
    [difference] = found.differences
    assert (difference[2].value, difference[3].value) == (2 / 16, -0.5)
    assert (found.questions, found.passages, found.retrieval_misses) == (4, 4, 0)
    value = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert value["scorers"][0]["auroc"]["value"] == 14 / 16
    assert value["choice"]["outcome"] == "cannot_be_told"


def test_a_retrieval_miss_says_nothing_about_a_scorer(write_run: WriteRun, tmp_path: Path) -> None:
    rows = [*pairs([4, 3], [1, 0]), missed(2, 9.0), case(2, "left_out", 2.0)]
    # Scorers that failed do not all know that the passage was not retrieved.
    other = [*pairs([4, 3], [1, 0]), failed(2, "in_kb"), case(2, "left_out", 2.0)]
    found = ScorerComparison(
        [_scorer(write_run, tmp_path, "one", rows), _scorer(write_run, tmp_path, "other", other)],
        risk=0.1,
    )
    assert found.retrieval_misses == 1
    assert [one.auroc.value for one in found.scorers] == [1.0, 1.0]


def test_a_scorer_that_always_fails_has_no_number_and_is_not_taken(
    write_run: WriteRun, tmp_path: Path
) -> None:
    good = [2 + i / 100 for i in range(40)]
    rows = pairs(good, [x - 2 for x in good])
    broken = [failed(i, kind) for i in range(40) for kind in ("in_kb", "left_out")]
    found = ScorerComparison(
        [
            _scorer(write_run, tmp_path, "works", rows),
            _scorer(write_run, tmp_path, "broken", broken),
        ],
        risk=0.1,
    )
    assert found.scorers[1].auroc.value is None
    assert found.scorers[1].false_abstention.value is None
    assert (found.scorers[1].failed, found.failed) == (80, 80)
    assert found.differences == []
    # Of nothing it was shown to be better.
    assert (found.choice.take, found.choice.outcome) == ("works", "only_one")
    assert "the only one that can be taken" in found.choice.reason
    assert "broken (80 of its 80 cases failed)" in found.choice.reason
    document = scorers_document(found)
    assert document.warnings == ["broken failed on 80 of 80 cases (80 SignalTimeoutError)."]


# -- which one to take --------------------------------------------------------------------


def _numbers(name: str, milliseconds: float, *, calls: float = 0, failed: int = 0) -> ScorerNumbers:
    auroc = Interval(0.8, 0.7, 0.9, 50)
    return ScorerNumbers(name, auroc, Interval(), 100, failed, {}, milliseconds, calls)


def _difference(first: str, second: str, low: float, high: float) -> ScorerDifference:
    return first, second, Interval((low + high) / 2, low, high, 50), Interval()


CHEAP, DEAR = _numbers("cheap", 1.0), _numbers("dear", 900.0, calls=1)


@pytest.mark.parametrize(
    ("low", "high", "outcome", "take"),
    [
        (0.02, 0.09, "better", "dear"),
        (-0.09, -0.02, "better", "cheap"),
        (-0.03, 0.01, "as_good", "cheap"),
        (-0.03, 0.09, "cannot_be_told", "cheap"),
    ],
)
def test_the_cheapest_that_is_not_worse_is_taken(
    low: float, high: float, outcome: Outcome, take: str
) -> None:
    for given in (
        [_difference("dear", "cheap", low, high)],
        [_difference("cheap", "dear", -high, -low)],
    ):
        found, taken, reason = choose_scorer([DEAR, CHEAP], given, 50)
        assert (found, taken) == (outcome, take)
        assert take in reason


def test_a_call_of_a_language_model_costs_more_than_any_time() -> None:
    slow = _numbers("slow", 5000.0)
    _, take, _ = choose_scorer([slow, DEAR], [_difference("slow", "dear", -0.01, 0.01)], 50)
    assert take == "slow"


@pytest.mark.parametrize(("milliseconds", "take"), [(24.0, "other"), (26.0, "first")])
def test_of_two_that_take_about_the_same_time_the_better_one_is_taken(
    milliseconds: float, take: str
) -> None:
    better = Interval(0.81, 0.7, 0.9, 50)
    other = ScorerNumbers("other", better, Interval(), 100, 0, {}, milliseconds, 0)
    difference = _difference("other", "first", -0.01, 0.015)
    assert choose_scorer([_numbers("first", 20.0), other], [difference], 50)[1] == take


def test_one_that_is_worse_than_a_third_is_not_taken() -> None:
    middle = _numbers("middle", 20.0)
    differences = [
        _difference("dear", "middle", -0.01, 0.015),
        _difference("dear", "cheap", 0.03, 0.08),
        _difference("middle", "cheap", 0.01, 0.09),
    ]
    assert choose_scorer([CHEAP, middle, DEAR], differences, 50)[:2] == ("as_good", "middle")


def test_too_few_passages_tell_nothing() -> None:
    found = choose_scorer([CHEAP, DEAR], [_difference("cheap", "dear", 0.1, 0.2)], 29)
    assert found == (
        "cannot_be_told",
        None,
        "Which one is better cannot be told from questions on 29 passages: at least 30 are needed.",
    )


def test_none_is_taken_where_none_is_fit() -> None:
    chance = ScorerNumbers("coin", Interval(0.5, 0.4, 0.6, 50), Interval(), 100, 0, {}, 1.0, 0)
    outcome, take, reason = choose_scorer(
        [chance, _numbers("broken", 1.0, failed=6)], [_difference("coin", "broken", -1, 1)], 50
    )
    assert (outcome, take) == ("none", None)
    assert "coin: it is not shown to be better than chance" in reason
    assert "broken: 6 of its 100 cases failed" in reason
