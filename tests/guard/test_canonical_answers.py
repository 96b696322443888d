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
