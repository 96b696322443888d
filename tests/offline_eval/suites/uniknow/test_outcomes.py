from __future__ import annotations

import pytest

from knowgate.offline_eval.suites.uniknow._matching import stands_in
from knowgate.offline_eval.suites.uniknow._metrics import (
    Outcome,
    context_holds_answer,
    outcome_of,
)
from tests.offline_eval.suites.uniknow.twenty_cases import CONTEXT, TABLE, row


def test_each_of_twenty_cases_is_sorted_as_by_hand() -> None:
    for number in range(len(TABLE)):
        assert outcome_of(row(number), CONTEXT) == TABLE[number][-1]


def test_without_its_context_no_answer_counts_as_taken_from_an_irrelevant_one() -> None:
    assert outcome_of(row(9)) is Outcome.PARAMETRIC
    assert outcome_of(row(14)) is Outcome.OTHER
    assert outcome_of(row(2)) is Outcome.CONTEXTUAL


def test_declining_an_open_question_is_wrong_only_where_the_context_answers_it() -> None:
    original = row(16, answer="", abstained=True, right=False)

    assert outcome_of(original, CONTEXT) is Outcome.FALSE_ABSTENTION
    assert outcome_of(row(17), CONTEXT) is Outcome.RIGHT_ABSTENTION


def test_an_empty_reply_that_is_no_refusal_is_another_error() -> None:
    assert outcome_of(row(2, answer=" . "), CONTEXT) is Outcome.OTHER


def test_an_untrue_answer_that_was_believed_is_another_error() -> None:
    believed = row(9, context_kind="untrue", misled=True)

    assert outcome_of(believed, CONTEXT) is Outcome.OTHER


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        ("original", True),
        ("conflicting", True),
        ("random", False),
        ("retrieved", False),
        ("one_of_k", True),
        ("two_in_conflict", True),
        ("none_of_k", False),
        ("untrue", False),
    ],
)
def test_open_questions_go_by_the_kind_of_their_context(kind: str, holds: bool) -> None:
    assert context_holds_answer(row(16, context_kind=kind)) is holds


def test_words_stand_in_a_text_whole_and_in_a_row() -> None:
    assert stands_in("The New York!", "He left new york in May.")
    assert not stands_in("york new", "He left New York.")
    assert not stands_in("ork", "New York")
    assert not stands_in("", "New York")
