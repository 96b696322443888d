"""Numbers, dates, initials, aliases and meaning: one answer in other letters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.matching import (
    AnswerMatcher,
    MeaningMatcher,
    canonical_answer,
    normalise_answer,
    same_answer,
)

SAME = [
    ("twenty-three", "23"),
    ("Twenty three", "23."),
    ("2 million", "2000000"),
    ("two million", "2,000,000"),
    ("1.5 million", "1,500,000"),
    ("a hundred", "100"),
    ("one hundred and five", "105"),
    ("two hundred million", "200000000"),
    ("three hundred thousand two hundred and one", "300,201"),
    ("nineteen hundred", "1900"),
    ("2,500 thousand", "2.5 million"),
    ("zero", "0"),
    ("the seventh", "7th"),
    ("the twenty-first century", "21st century"),
    ("twelfth", "12th"),
    ("the Second World War", "2nd world war"),
    ("fifty per cent", "50%"),
    ("50 percent", "50 %"),
    ("4 July 1776", "July 4, 1776"),
    ("4 July 1776", "1776-07-04"),
    ("1776/7/4", "July 4th, 1776"),
    ("the fourth of July, 1776", "1776-07-04"),
    ("Thursday, July 4, 1776", "4 Jul. 1776"),
    ("1776 July 4", "4th of July of 1776"),
    ("July 1776", "1776-07"),
    ("5 May", "May 5th"),
    ("Sept. 11, 2001", "11 September 2001"),
    ("the U.S.A.", "USA"),
    ("J. R. R. Tolkien", "J.R.R. Tolkien"),
]
DIFFERENT = [
    ("twenty-three", "24"),
    ("2 million", "2 billion"),
    ("1.5 million", "15 million"),
    ("twenty, three", "23"),
    ("ten twenty", "1020"),
    ("one and two", "12"),
    ("seventh", "7"),
    ("4 July 1776", "7 April 1776"),
    ("4/7/1776", "4 July 1776"),
    ("July 1776", "4 July 1776"),
    ("no one", "number 1"),
    ("-5", "five"),
    ("five percent", "5"),
    ("May", "5"),
    ("a second", "seconds"),
]


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
    for text, canonical in [
        ("two three", "2 3"),
        ("twenty zero", "20 0"),
        ("thousand thousand", "1000 1000"),
        ("hundred million", "100000000"),
        ("five hundred and twenty and six", "520 and 6"),
        ("no one", "no one"),
        ("Formula One", "formula 1"),
        ("done, none, oneself, tenth-rate", "done none oneself 10th rate"),
        ("the eleventh of March", "03 11"),
        ("on 31 Dec 1999, Friday", "on 1999 12 31 friday"),
        ("one hundred and eleventh", "111th"),
        ("twenty-second", "22nd"),
        ("1.50 million", "1500000"),
        ("1.2345678 thousand", "1234.5678"),
    ]:
        assert canonical_answer(text) == canonical


WORDS = (
    "one",
    "two",
    "three",
    "ten",
    "twelve",
    "twenty",
    "ninety",
    "hundred",
    "thousand",
    "million",
    "first",
    "second",
    "third",
    "twentieth",
    "hundredth",
    "and",
    "zero",
    "july",
    "may",
    "mar",
    "4",
    "31",
    "1776",
    "2,5",
    "1.5",
    "12,000",
    "of",
    "the",
    "a",
    "no",
    "any",
    "on",
    "thursday",
    "per",
    "cent",
    "percent",
    "%",
    ".",
    ",",
    "-",
    "'",
    "/",
    "th",
    "2nd",
    "J.",
    "U.S.",
    "BC",
    "-7",
    "１２",
    "ﬁve",
)
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


# -- meaning --------------------------------------------------------------------------


class Compass:
    """Vectors by angle, in degrees; unknown texts point away."""

    fingerprint = "compass"

    def __init__(self, **angles: float) -> None:
        self._angles = angles
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        angles = np.radians([self._angles.get(text.split()[0], 180.0) for text in texts])
        found = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return 3 * found.astype(np.float32)


def test_vectors_that_point_the_same_way_are_one_answer() -> None:
    compass = Compass(car=0, automobile=20, bicycle=40)
    matcher = MeaningMatcher(compass, threshold=0.9)  # cos 26° = 0.9

    assert matcher("the car", "automobile")
    assert matcher("Automobile", "a bicycle")
    assert not matcher("car", "bicycle")
    assert matcher("bicycle", "automobile")


def test_equal_letters_need_no_vectors() -> None:
    compass = Compass()

    assert MeaningMatcher(compass)("Car!", "a car")
    assert compass.asked == []


def test_answers_with_different_numbers_are_never_one_by_their_vectors() -> None:
    compass = Compass(car=0)

    assert not MeaningMatcher(compass)("car 23", "car 24")
    assert MeaningMatcher(compass)("car 23 red", "car twenty-three blue")
    assert not MeaningMatcher(compass)("", "car")


def test_vectors_of_length_zero_are_nothing() -> None:
    class Nowhere(Compass):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.zeros((len(texts), 2), dtype=np.float32)

    assert not MeaningMatcher(Nowhere())("a b", "c d")


def test_its_fingerprint_names_embedder_and_threshold() -> None:
    assert MeaningMatcher(Compass(), threshold=0.8).fingerprint == "meaning:Compass:compass:0.8"


def test_the_embedded_scorer_tells_meanings_apart(bi_encoder: BiEncoderScorer) -> None:
    matcher = MeaningMatcher(bi_encoder, threshold=0.75)

    assert matcher("New York City", "the city of New York")
    assert matcher("the city of New York", "New York City")
    assert not matcher("New York City", "Los Angeles")
