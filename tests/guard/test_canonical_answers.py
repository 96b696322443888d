"""Numbers, dates, initials, aliases and meaning: one answer in other letters."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard.matching import (
    AnswerMatcher,
    canonical_answer,
    normalise_answer,
    same_answer,
)
from tests.support.tables import table

SAME = table(__file__, "same")
DIFFERENT = table(__file__, "different")


@pytest.mark.parametrize(("first", "second"), SAME)
def test_two_ways_to_write_one_answer_are_the_same(first: str, second: str) -> None:
    assert canonical_answer(first) == canonical_answer(second)
    assert same_answer(first, second)
    assert same_answer(second, first)


@pytest.mark.parametrize(("first", "second"), DIFFERENT)
def test_answers_that_only_look_alike_are_not(first: str, second: str) -> None:
    assert not same_answer(first, second)
    assert not same_answer(second, first)


def test_an_answer_has_the_canonical_form_worked_out_by_hand() -> None:
    for text, canonical in table(__file__, "an answer has the canonical form worked out by hand"):
        assert canonical_answer(text) == canonical


WORDS = table(__file__, "words")
phrases = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join) | st.lists(
    st.sampled_from([*WORDS, " ", " ", " "]), max_size=12
).map("".join)
texts = st.text() | phrases


@pytest.mark.slow
@given(texts)
@settings(max_examples=25, deadline=None)
def test_the_canonical_form_is_its_own(text: str) -> None:
    canonical = canonical_answer(text)
    assert canonical_answer(canonical) == canonical
    assert normalise_answer(canonical) == canonical


@pytest.mark.slow
@given(texts, texts)
@settings(max_examples=25, deadline=None)
def test_sameness_is_symmetric_and_every_answer_is_its_own(first: str, second: str) -> None:
    assert same_answer(first, second) == same_answer(second, first)
    assert same_answer(first, first) is bool(normalise_answer(first))
    if same_answer(first, second) and normalise_answer(first) == normalise_answer(second):
        assert canonical_answer(first) == canonical_answer(second)


# -- aliases --------------------------------------------------------------------------

COUNTRIES = {"United States": ["USA", "United States of America"], "Washington": ["D.C."]}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("the U.S.A.", "united states", True),
        ("USA", "the United States of America", True),
        ("DC", "Washington", True),
        ("USA", "Washington", False),
        ("Paris", "paris", True),
        ("UK", "USA", False),
        ("", "", False),
    ],
)
def test_names_of_one_group_are_the_same(first: str, second: str, same: bool) -> None:
    matcher = AnswerMatcher(COUNTRIES)

    assert matcher(first, second) is same
    assert matcher(second, first) is same


def test_a_name_of_two_groups_is_the_same_as_both_but_they_are_not() -> None:
    matcher = AnswerMatcher(
        {"George Washington": ["Washington"], "Seattle's state": ["Washington"]}
    )

    assert matcher("Washington", "George Washington")
    assert matcher("Washington", "Seattle's state")
    assert not matcher("George Washington", "Seattle's state")


def test_other_aliases_have_another_fingerprint() -> None:
    first, again = AnswerMatcher(COUNTRIES), AnswerMatcher(dict(reversed(COUNTRIES.items())))

    assert first.fingerprint == again.fingerprint
    assert first.fingerprint != AnswerMatcher().fingerprint


def test_without_aliases_letters_decide() -> None:
    assert AnswerMatcher()("Paris.", "paris")
    assert not AnswerMatcher()("Paris", "Rome")


@given(texts, texts)
@settings(max_examples=20, deadline=None)
def test_aliases_keep_sameness_symmetric(first: str, second: str) -> None:
    matcher = AnswerMatcher({"two million": ["plenty"], first: [second], "july 4": ["the day"]})

    assert matcher(first, second) == matcher(second, first)
    assert matcher(first, second) is (
        bool(normalise_answer(first)) and bool(normalise_answer(second))
    )
