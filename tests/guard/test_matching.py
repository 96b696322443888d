"""When two short answers are the same, by hand and for any text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard.matching import SentenceMatcher, is_refusal, normalise_answer, same_answer
from tests.support.tables import table


def test_an_answer_is_normalised_as_worked_out_by_hand() -> None:
    for text, normalised in table(__file__, "an answer is normalised as worked out by hand"):
        assert normalise_answer(text) == normalised


@pytest.mark.parametrize(
    ("first", "second", "same"),
    table(__file__, "two answers are the same or not"),
)
def test_two_answers_are_the_same_or_not(first: str, second: str, same: bool) -> None:
    assert same_answer(first, second) is same
    assert same_answer(second, first) is same


texts = st.text() | st.text(alphabet="aAnthe 0123456789.,:;'’/-–%\u0301\u00a0ßﬁ", max_size=20)


@given(texts)
@settings(max_examples=25, deadline=None)
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalise_answer(text)
    assert normalise_answer(once) == once


@given(texts)
@settings(max_examples=20, deadline=None)
def test_every_answer_with_something_in_it_is_the_same_as_itself(text: str) -> None:
    assert same_answer(text, text) is bool(normalise_answer(text))
    assert same_answer(text, f"  {text}\n") is bool(normalise_answer(text))


def test_a_reply_that_says_there_is_no_answer_is_a_refusal() -> None:
    for text in table(__file__, "a reply that says there is no answer is a refusal"):
        assert is_refusal(text)


def test_an_answer_is_no_refusal() -> None:
    for text in table(__file__, "an answer is no refusal"):
        assert not is_refusal(text)


_POLAND = "What is the capital of Poland?"


def test_sentences_are_the_same_by_what_they_add_to_the_question() -> None:
    for question, first, second, same in [
        (_POLAND, "The capital of Poland is Warsaw.", "Warsaw is the capital of Poland.", True),
        (_POLAND, "The capital of Poland is Warsaw.", "Warsaw", True),
        (_POLAND, "The capital of Poland is Warsaw.", "The capital of Poland is Krakow.", False),
        ("When did it sink?", "The ship sank in April 1912.", "It sank in April 1913.", False),
        ("Who won?", "Warsaw", "Warsaw Rising", False),
        (_POLAND, "The capital of Poland is:", "The capital of Poland is:", True),
        (_POLAND, "The capital of Poland is:", "What is the capital of Poland?", False),
        (_POLAND, "", "", False),
        (
            "Is the capital Sydney or Canberra?",
            "The capital of Australia is Sydney.",
            "The capital of Australia is Canberra.",
            False,
        ),
        (
            "Was the tower built in 1889 or 1899?",
            "The tower was built by Eiffel in 1889.",
            "The tower was built by Eiffel in 1899.",
            False,
        ),
        (
            "Was the tower built in 1889 or 1899?",
            "The tower was built by Eiffel in 1889.",
            "The tower was built by Eiffel.",
            True,
        ),
        (
            "What do the guidelines say about aspirin?",
            "Aspirin is allowed for young children.",
            "Aspirin is not allowed for young children.",
            False,
        ),
        (
            "What do the guidelines say about aspirin?",
            "Aspirin isn’t allowed for young children.",
            "Aspirin is not allowed for young children.",
            True,
        ),
        (
            "Who may enter the pool?",
            "Guests may enter with a wristband.",
            "No guests may enter with a wristband.",
            False,
        ),
        (
            "Which scent did she wear?",
            "She always wore Chanel No. 5.",
            "She always wore the Chanel 5.",
            True,
        ),
    ]:
        matcher = SentenceMatcher().about(question)
        assert matcher(first, second) is same
        assert matcher(second, first) is same
