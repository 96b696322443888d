"""Putting another answer in the place of the right one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.offline_eval.suites.uniknow._alternatives import (
    Alternative,
    StatedAnswer,
    is_another,
    replace_answer,
    stated_answer,
)
from knowgate.offline_eval.suites.uniknow._answer_kinds import AnswerKind, answer_shape
from knowgate.offline_eval.suites.uniknow._cases import Question
from knowgate.offline_eval.suites.uniknow._matching import holds_answer


def _replaced(
    text: str,
    answer: str,
    new: str,
    kind: AnswerKind = AnswerKind.PHRASE,
    number: str | None = None,
) -> str | None:
    return replace_answer(text, (answer,), Alternative(new, (new,), number), kind)


def test_articles_are_corrected() -> None:
    assert _replaced("It is a pear.", "pear", "orange") == "It is an orange."
    assert _replaced("It is an orange.", "orange", "unit") == "It is a unit."
    assert _replaced("An owl came.", "owl", "cat") == "A cat came."
    assert _replaced("Take vitamin A daily.", "daily", "only") == "Take vitamin A only."


def test_every_occurrence_and_alias_is_replaced() -> None:
    text = "The Denver Broncos won. Broncos fans sang."
    new = Alternative("Dallas Cowboys", ("Dallas Cowboys",))

    assert replace_answer(text, ("Denver Broncos", "Broncos"), new, AnswerKind.NAME) == (
        "The Dallas Cowboys won. Dallas Cowboys fans sang."
    )


def test_an_article_of_the_answer_itself_stays() -> None:
    assert _replaced("He saw the river.", "the river", "hills") == "He saw the hills."
    assert _replaced("She read the last letter.", "last letter", "a book") == "She read the book."
    assert _replaced("He sang the song.", "the song", "his poem") == "He sang his poem."


def test_a_number_changes_in_every_spelling_of_the_answer() -> None:
    new = Alternative("36 points", ("36 points", "36"), "36")

    assert replace_answer("24 points, yes 24.", ("24 points", "24"), new, AnswerKind.QUANTITY) == (
        "36 points, yes 36."
    )
    assert _replaced("Four of four.", "four", "six", AnswerKind.NUMBER, "Six") == "Six of six."


def test_the_surname_of_a_person_changes_too() -> None:
    assert _replaced(
        "Jared Allen ran. Allen won.", "Jared Allen", "Kony Ealy", AnswerKind.PERSON
    ) == ("Kony Ealy ran. Ealy won.")


def test_a_surname_in_the_new_name_is_left_alone() -> None:
    text = "Frederick William came. William stayed."

    assert _replaced(text, "Frederick William", "William Farel", AnswerKind.PERSON) == (
        "William Farel came. Farel stayed."
    )


def test_a_text_that_still_tells_the_answer_is_refused() -> None:
    assert (
        _replaced("It had 23 rooms, yes twenty-three.", "23", "30", AnswerKind.NUMBER, "30") is None
    )
    assert _replaced("Nothing here.", "pear", "plum") is None


@settings(max_examples=20, deadline=None)
@given(
    words=st.lists(
        st.sampled_from(["a", "an", "the", "pear", "Pear", "pears", "pear's", "of", "1.", "."]),
        max_size=25,
    )
)
def test_no_right_answer_is_left(words: list[str]) -> None:
    new = _replaced(" ".join([*words, "pear"]), "pear", "old plum")

    assert new is None or not holds_answer(new, ["pear"])


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        ("Who wrote it?", "Mary Shelley", AnswerKind.PERSON),
        ("Which city hosted it?", "Paris", AnswerKind.PLACE),
        ("Who published it?", "Oxford University Press", AnswerKind.ORGANISATION),
        ("When was it signed?", "July 4, 1776", AnswerKind.DATE),
        ("When was it built?", "in 1843", AnswerKind.YEAR),
        ("How many people came?", "1843", AnswerKind.NUMBER),
        ("How many games were lost?", "twenty-three", AnswerKind.NUMBER),
        ("How far is it?", "340 miles", AnswerKind.QUANTITY),
        ("How much was spent?", "$1.2 million", AnswerKind.QUANTITY),
        ("What did it cause?", "a shortage of water", AnswerKind.PHRASE),
        ("Who won?", "Denver Broncos", AnswerKind.NAME),
    ],
)
def test_the_kind_of_an_answer(question: str, answer: str, kind: AnswerKind) -> None:
    assert answer_shape(question, answer).kind is kind


def _stated(question: str, answer: str, window: str) -> StatedAnswer:
    asked = Question("q", question, (answer,), "data", "group", (window,))
    return stated_answer(asked, window)


def test_what_may_be_the_same_person_or_stands_in_the_text_is_no_other_answer() -> None:
    stated = _stated("Who wrote it?", "Percy Shelley", "It was Percy Shelley, not Lord Byron.")

    assert not is_another(stated, "Percy Bysshe Shelley")
    assert not is_another(stated, "Mary Shelley")
    assert not is_another(stated, "the Percy Shelley!")
    assert not is_another(stated, "Byron")
    assert is_another(stated, "John Keats")
    assert not is_another(_stated("谁？", "甘地的", "这是甘地的书。"), "莫罕达斯·甘地")
