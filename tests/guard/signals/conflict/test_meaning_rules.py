"""What rules alone say of two answers."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowgate.guard.signals.conflict.meaning_rules import Rule, read_answer
from tests.support.paths import SHARED_DATA
from tests.support.tables import table

SAME = table(__file__, "same")
DIFFERENT = [
    ("23", "32"),
    ("23", "23 million"),
    ("1990", "1991"),
    ("1990", "1990s"),
    ("1.5", "15"),
    ("1" * 400, "1" * 399 + "2"),
    ("-5", "5"),
    ("twenty-three", "thirty-two"),
    ("12:30", "12:45"),
    ("7 May 2004", "7 June 2004"),
    ("Monday", "on Tuesday"),
    ("5 km", "5 miles"),
    ("$5", "€5"),
    ("World War I", "World War II"),
    ("George V", "George VI"),
    ("is required", "is not required"),
    ("It can be done", "It can't be done"),
    ("Paris", "It is not Paris"),
    ("legal", "illegal"),
    ("It was before the war", "It was after the war"),
    ("Yes", "No."),
    ("Yes, it is", "No, it isn't"),
    ("the north", "the south"),
    ("1990年", "1991年"),
    ("需要", "不需要"),
    ("巴黎", "不是巴黎"),
    ("", ""),
    ("...", "Paris"),
]
# A number, a date, a negation or an alternative in one only: no similarity may say the same.
DOUBTFUL = table(__file__, "doubtful")
OPEN = table(__file__, "open")
CASES = [
    *((pair, Rule.SAME) for pair in SAME),
    *((pair, Rule.DIFFERENT) for pair in DIFFERENT),
    *((pair, Rule.DOUBTFUL) for pair in DOUBTFUL),
    *((pair, Rule.OPEN) for pair in OPEN),
]


@pytest.mark.parametrize(("pair", "rule"), CASES, ids=str)
def test_rules_say_of_two_answers_what_was_worked_out_by_hand(
    pair: tuple[str, str], rule: Rule
) -> None:
    first, second = pair
    assert Rule.between(first, second) is rule
    assert Rule.between(second, first) is rule


@pytest.mark.parametrize(
    ("text", "numbers", "months"),
    [
        ("twenty-three million on 4 July 1990", {"23000000", "4", "1990"}, {7}),
        ("one hundred", {"100"}, set()),
        ("one of them, no one", set(), set()),
        ("Henry VIII", {"8"}, set()),
        ("I think so", set(), set()),
        ("it may march", set(), set()),
        ("May 5", {"5"}, {5}),
        ("2001-02-03", {"2001", "3"}, {2}),
        ("三百二十万人", {"3200000"}, set()),
        ("一些", set(), set()),
        ("二〇二四年三月", {"2024", "3"}, set()),
    ],
)
def test_numbers_and_months_are_read(text: str, numbers: set[str], months: set[int]) -> None:
    found = read_answer(text).quantities
    assert (set(found[0]), set(found[1])) == (numbers, {f"month {month}" for month in months})


texts = st.text(max_size=40) | st.lists(
    st.sampled_from(
        ["not", "no", "yes", "Paris", "is", "it", "7", "1990", "May", "VI", "one", "%", "$", ",",
         "-", "不", "三", "十", "年", "million", "or", "km", "unhappy", "happy"]
    ),
    max_size=8,
).map(" ".join)  # fmt: skip


@pytest.mark.slow
@given(texts, texts)
@example("0B", "0#0")
@settings(max_examples=25, deadline=None)
def test_rules_never_fail_and_do_not_care_for_order(first: str, second: str) -> None:
    assert Rule.between(first, second) is Rule.between(second, first)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_two_numbers_are_the_same_exactly_if_they_are_equal(first: int, second: int) -> None:
    expected = Rule.SAME if first == second else Rule.DIFFERENT
    assert Rule.between(f"{first:,}", f"It was {second}.") is expected


_CONFLICTS = SHARED_DATA / "conflictqa/strategyqa_chatgpt.jsonl"


@pytest.mark.slow
@pytest.mark.skipif(not _CONFLICTS.is_file(), reason="the public conflictqa data is not here")
def test_published_contradictions_are_seen_by_rule() -> None:
    with _CONFLICTS.open(encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]

    rules = [Rule.between(row["memory_answer"], row["counter_answer"]) for row in rows]

    assert sum(rule in (Rule.DIFFERENT, Rule.DOUBTFUL) for rule in rules) / len(rows) > 0.98
    assert sum(rule is Rule.SAME for rule in rules) <= 1


@pytest.mark.parametrize(("share", "count"), [("50%", "50"), ("12 percent", "12")])
def test_a_share_is_never_taken_for_a_count_without_entailment(share: str, count: str) -> None:
    assert Rule.between(share, count) is Rule.DOUBTFUL
    assert Rule.between(count, share) is Rule.DOUBTFUL
