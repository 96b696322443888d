"""Ordinary questions, of which the checker must not say that they have no answer."""

from __future__ import annotations

import pytest

from knowgate.guard.contracts import Premise
from knowgate.guard.signals.answerability import PremiseChecker
from knowgate.guard.signals.answerability._statements import Likeness, likeness
from tests.support.tables import table

OPEN = PremiseChecker()
CLOSED = PremiseChecker(closed_world=True)


def refused(checker: PremiseChecker, question: str, passages: list[str]) -> bool:
    return checker.detect(question, passages).premise is Premise.UNANSWERABLE


@pytest.mark.parametrize(
    ("question", "passages"),
    table(__file__, "two questions in one are not two conditions"),
)  # fmt: skip
def test_two_questions_in_one_are_not_two_conditions(question: str, passages: list[str]) -> None:
    assert not refused(OPEN, question, passages)
    assert not refused(CLOSED, question, passages)


@pytest.mark.parametrize(
    ("question", "passages"),
    [
        ("Who is both tall and strong?", ["Who is tall? Ann", "Who is strong? Bo, Cy"]),
        ("Which city is both a port and a capital?",
         ["Which city is a port? Hamburg", "Which city is a capital? Berlin"]),
        ("谁是作家，同时也是医生？", ["谁是作家？ 契诃夫", "谁是医生？ 鲁迅"]),
    ],
)  # fmt: skip
def test_what_holds_of_many_is_never_listed_in_full(question: str, passages: list[str]) -> None:
    assert not refused(OPEN, question, passages)


def test_a_sentence_that_has_the_name_beside_the_other_condition_leaves_it_open() -> None:
    question = "Who is the founder of Arn Bank and also a mayor of Rill?"
    passages = [
        "Bo Rask was the founder of Arn Bank.",
        "The mayor of Rill was Cy Lund. Before, Bo Rask governed Rill.",
    ]

    assert not refused(CLOSED, question, passages)
    assert refused(CLOSED, question, [passages[0], "The mayor of Rill was Cy Lund."])


@pytest.mark.parametrize(
    ("question", "passages"),
    table(__file__, "a yes or a manner may be told in any words"),
)  # fmt: skip
def test_a_yes_or_a_manner_may_be_told_in_any_words(question: str, passages: list[str]) -> None:
    assert not refused(OPEN, question, passages)
    assert not refused(CLOSED, question, passages)


@pytest.mark.parametrize(
    ("question", "passages"),
    table(__file__, "what goes by other words may be one of the options"),
)  # fmt: skip
def test_what_goes_by_other_words_may_be_one_of_the_options(
    question: str, passages: list[str]
) -> None:
    assert not refused(OPEN, question, passages)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    table(__file__, "what may be short for a name may be it"),
)
def test_what_may_be_short_for_a_name_may_be_it(first: str, second: str, expected: str) -> None:
    assert likeness(first, second) is Likeness[expected]
    assert likeness(second, first) is Likeness[expected]


@pytest.mark.parametrize(
    ("question", "passages"),
    table(__file__, "the beginning of one thing is not that of all"),
)  # fmt: skip
def test_the_beginning_of_one_thing_is_not_that_of_all(question: str, passages: list[str]) -> None:
    assert not refused(OPEN, question, passages)


@pytest.mark.parametrize(
    "sentence",
    [
        "In 1990 Ann Lund received the Cape Cross.",
        "The Cape Cross of 1990 was given to Ann Lund.",
        "From 1985 to 1995 Ann Lund was honoured yearly.",
    ],
)
def test_a_sentence_about_that_time_outweighs_the_bounds(sentence: str) -> None:
    clue = "When did Ann Lund start receiving awards the first time? 1995"
    question = "Which award did Ann Lund receive in 1990?"

    assert refused(OPEN, question, [clue])
    assert not refused(OPEN, question, [clue, sentence])
    assert not refused(CLOSED, question, [clue, sentence])


def test_what_others_did_at_that_time_rules_nothing_out() -> None:
    passages = ["Bo — mayor of — Rill (1990–1995)", "Cy — mayor of — Arn (1950–1955)"]

    assert refused(CLOSED, "Who was the mayor of Rill in 1952?", passages)


def test_a_number_or_a_word_is_not_taken_for_an_impossible_time() -> None:
    for question in [
        # Numbers that are no years.
        "What jobs pay between 3000 and 5000 euros?",
        "How many calories should I eat, between 2500 and 3000?",
        "What is the oil change interval after 5000 hours?",
        "How do I earn status after 2500 points?",
        "What does IEEE 2030-2011 define?",
        "What is part 4500-2100 used for?",
        "GB 2760-2014允许使用哪些甜味剂？",
        "Which trains run between 2300 and 0500?",
        "Is parking free from 2200 to 0600?",
        "Can I check in after 2200?",
        "Was passiert in 3000 Metern Höhe?",
        "What happened from 3000 to 2000 years ago?",
        "5000年以来中国有多少朝代？",
        "2500年的历史中发生了什么？",
        # What falls, and does not run backwards.
        "Why did attendance fall from 2000 to 1500?",
        "How did the population decline from 1912 to 1907?",
        # Plans, forecasts and stories.
        "Which bridges will be completed in 2232?",
        "What will temperatures be in 2300?",
        "When is the bond due, in 2230?",
        "In 2364, who commands the Enterprise?",
        # Months that are none, or followed by years and counts.
        "What caused the May 68 protests in France?",
        "Who won the June 44 battle?",
        "How far did the army march 50 miles north of Rill?",
        "May 50 guests attend the wedding?",
        "Up to how many people may 35 families invite?",
        "Of the 60 may any leave early?",
        # Days that are asked about because there are none.
        "Why is there no February 30?",
        "Was there ever a February 30th?",
        "为什么没有2月30日？",
        "2月有30日吗？",
    ]:
        assert not refused(OPEN, question, ["Nothing of use."])
        assert not refused(CLOSED, question, ["Nothing of use."])


@pytest.mark.parametrize(
    ("question", "passage"),
    table(__file__, "an impossible time that the passages speak of is left to them"),
)
def test_an_impossible_time_that_the_passages_speak_of_is_left_to_them(
    question: str, passage: str
) -> None:
    assert refused(OPEN, question, ["Nothing of use."])
    assert refused(OPEN, question, ["2 30 and 30 2 are no days."])
    assert not refused(OPEN, question, [passage])


@pytest.mark.parametrize(
    ("question", "passages", "in_a_closed_world"),
    [
        # A place that both conditions name is asked for, which in the open world may nest.
        ("Where was Ann Lund born and also the place where Bo Rask died?",
         ["Where was Ann Lund born? Rill", "The place where Bo Rask died is? Arn"], True),
        ("When was Ann Lund born and also the death of Bo Rask?",
         ["When was Ann Lund born? June", "The death of Bo Rask is? July"], False),
        ("在安娜·伦德的姐妹中，有谁是博·拉斯克的母亲？",
         ["安娜·伦德的姐妹是？ 玛丽·伦德", "博·拉斯克的母亲是？ 多拉·基姆"], True),
        ("Who is the child of Ann Lund and also the author of Who Rules Rill?",
         ["The child of Ann Lund is? Mary Arn, 3rd Duke of Bel",
          "The author of Who Rules Rill is? Cy Kim"], True),
        ("Who is the child of Ann Lund and also the author of Rill?",
         ["The child of Ann Lund is? 3", "The author of Rill is? Cy Kim"], False),
    ],
)  # fmt: skip
def test_what_is_asked_for_says_whether_two_conditions_can_exclude_each_other(
    question: str, passages: list[str], in_a_closed_world: bool
) -> None:
    assert refused(CLOSED, question, passages) == in_a_closed_world


def test_the_times_of_a_chinese_office_bound_it_in_a_closed_world_only() -> None:
    clue = "汉斯·伦德第一次担任里尔市市长的开始时间？ 1951"

    assert refused(CLOSED, "1934年至1939年期间，里尔市市长是谁？", [clue])
    assert not refused(OPEN, "1934年至1939年期间，里尔市市长是谁？", [clue])
    assert not refused(CLOSED, "1934年至1939年期间，阿恩市市长是谁？", [clue])
    assert not refused(CLOSED, "1955年至1959年期间，里尔市市长是谁？", [clue])


def test_an_option_within_a_longer_answer_is_right() -> None:
    clue = "What is the seat of Arn Bank? the old Bel Tower House by the river"

    found = CLOSED.detect("What is the seat of Arn Bank, Bel Tower House or Cor Gate?", [clue])

    assert found.premise is Premise.ANSWERABLE
