"""Which wrong answers may stand in the place of a right one, and how they are put there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.offline_eval.data.answers.alternatives import (
    Alternative,
    StatedAnswer,
    is_another,
    plausible,
    replace_answer,
)
from knowgate.offline_eval.data.answers.kinds import AnswerKind, answer_shape
from knowgate.offline_eval.data.answers.matching import (
    holds_answer,
    nearby_numbers,
    nearby_years,
)
from knowgate.offline_eval.run.grouping import grouped
from knowgate.offline_eval.suites.uniknow._windows import NearestPassages
from tests.offline_eval.suites.uniknow.bag_of_words import BagOfWords
from tests.support.tables import table


def _texts(*asked: tuple[str, str, str]) -> list[list[str]]:
    """The texts proposed for each of some questions with answer and context."""
    stated: list[StatedAnswer] = []
    for number, (question, answer, window) in enumerate(asked):
        stated.append(StatedAnswer.first(f"q{number}", question, (answer,), window))
    nearest = NearestPassages(
        [one.window for one in stated],
        [*(one.question for one in stated), *(one.text for one in stated)],
        BagOfWords(),
    )
    alike = grouped(stated, lambda one: one.shape.form)
    return [
        [other.text for other in plausible(one, alike[one.shape.form], nearest.likeness, seed=0)]
        for one in stated
    ]


@pytest.mark.parametrize(
    ("question", "asked"),
    table(__file__, "what a question asks for"),
)
def test_what_a_question_asks_for(question: str, asked: str) -> None:
    assert answer_shape(question, "x").asked == asked


@pytest.mark.parametrize(
    ("question", "answer", "kind"),
    [
        ("Which actor stood in?", "David Banks", AnswerKind.PERSON),
        ("Who won?", "Broncos", AnswerKind.NAME),
        ("What award did she win?", "Academy Award", AnswerKind.NAME),
        ("What South African law is it?", "South African Schools Act", AnswerKind.NAME),
        ("Which Super Bowl was it?", "Super Bowl XXXIII", AnswerKind.NAME),
        ("谁来了？", "卡万·肖特", AnswerKind.PERSON),
        ("第一场战役是什么？", "朱蒙维尔•格伦战役", AnswerKind.PHRASE),
    ],
)
def test_a_kind_goes_by_what_is_asked_and_by_the_last_word(
    question: str, answer: str, kind: AnswerKind
) -> None:
    assert answer_shape(question, answer).kind is kind


def test_a_name_gives_way_only_to_one_that_was_asked_for_alike() -> None:
    band, other_band, doctrine = _texts(
        ("What band was first?", "Venom", "It was Venom."),
        ("What band came later?", "Skyclad", "It was Skyclad."),
        ("Which doctrine was his?", "Satyagraha", "It was Satyagraha."),
    )

    assert (band, other_band, doctrine) == (["Skyclad"], ["Venom"], [])


def test_a_river_is_not_replaced_by_a_county() -> None:
    river, county, second_river = _texts(
        ("Which river runs there?", "Tyne River", "The Tyne River runs there."),
        ("In which county is it?", "Duval County", "It is in Duval County."),
        ("What is that river called?", "Wear River", "The Wear River runs there."),
    )

    assert (river, county, second_river) == (["Wear River"], [], ["Tyne River"])


def test_the_word_that_says_what_a_name_is_will_do() -> None:
    first, second, other = _texts(
        ("What came first in 1754?", "Battle of Marengo", "Then the Battle of Marengo came."),
        ("What did they lose?", "Battle of Leuthen", "They lost the Battle of Leuthen."),
        ("What did they sign?", "Edict of Nantes", "They signed the Edict of Nantes."),
    )

    assert (first, second, other) == (["Battle of Leuthen"], ["Battle of Marengo"], [])


def test_a_list_gives_way_to_a_list_only() -> None:
    pair, single = _texts(
        ("Who advised him?", "Liu Bing and Yao Shu", "Liu Bing and Yao Shu advised him."),
        ("Who led them?", "James Abercrombie Oldham", "James Abercrombie Oldham led them."),
    )

    assert (pair, single) == ([], [])


def test_numbers_near_another_keep_its_form() -> None:
    assert nearby_numbers("5.2", 5.2)[:2] == ["3.6", "6.8"]
    assert nearby_numbers("37 million", 37e6)[0] == "26 million"
    assert nearby_numbers("91", 91.0, most=100.0) == ["64", "55", "73", "46"]
    assert nearby_numbers("three", 3.0) == ["two", "four", "five"]
    assert nearby_numbers("ninety", 90.0) == []
    assert not {"0", "1", "2"} & set(nearby_numbers("2", 2.0))
    assert "1843" not in nearby_years(1843.0)


def test_in_chinese_only_what_shows_its_sort_gives_way() -> None:
    person, other_person, committee, bill, decade, other_decade = _texts(
        ("谁带领黑豹队？", "卡万·肖特", "卡万·肖特带领黑豹队。"),
        ("谁拦截了球？", "约什·诺曼", "约什·诺曼拦截了球。"),
        ("建立了什么组织？", "委员会", "他们建立了委员会。"),
        ("审议了什么？", "个人议案", "他们审议了个人议案。"),
        ("在什么年代完成？", "20世纪70年代", "它在20世纪70年代完成。"),
        ("在什么年代开始？", "20世纪50年代", "它在20世纪50年代开始。"),
    )

    assert (person, other_person) == (["约什·诺曼"], ["卡万·肖特"])
    assert (committee, bill) == ([], [])
    assert (decade, other_decade) == (["20世纪50年代"], ["20世纪70年代"])


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
    return StatedAnswer.first("q", question, (answer,), window)


def test_what_may_be_the_same_person_or_stands_in_the_text_is_no_other_answer() -> None:
    stated = _stated("Who wrote it?", "Percy Shelley", "It was Percy Shelley, not Lord Byron.")

    assert not is_another(stated, "Percy Bysshe Shelley")
    assert not is_another(stated, "Mary Shelley")
    assert not is_another(stated, "the Percy Shelley!")
    assert not is_another(stated, "Byron")
    assert is_another(stated, "John Keats")
    assert not is_another(_stated("谁？", "甘地的", "这是甘地的书。"), "莫罕达斯·甘地")
