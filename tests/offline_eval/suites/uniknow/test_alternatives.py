"""Which wrong answers may stand in the place of a right one."""

from __future__ import annotations

import pytest

from knowgate.offline_eval.suites.uniknow._alternatives import (
    Alternatives,
    StatedAnswer,
    stated_answer,
)
from knowgate.offline_eval.suites.uniknow._answer_kinds import AnswerKind, answer_shape
from knowgate.offline_eval.suites.uniknow._cases import Question
from knowgate.offline_eval.suites.uniknow._matching import nearby_numbers, nearby_years
from knowgate.offline_eval.suites.uniknow._windows import NearestPassages
from tests.offline_eval.suites.uniknow.bag_of_words import BagOfWords


def _texts(*asked: tuple[str, str, str]) -> list[list[str]]:
    """The texts proposed for each of some questions with answer and context."""
    stated: list[StatedAnswer] = []
    for number, (question, answer, window) in enumerate(asked):
        one = Question(f"q{number}", question, (answer,), "data", f"g{number}", (window,))
        stated.append(stated_answer(one, window))
    nearest = NearestPassages(
        [one.window for one in stated],
        [*(one.question.question for one in stated), *(one.text for one in stated)],
        BagOfWords(),
    )
    found = Alternatives(stated, nearest, seed=0)
    return [[other.text for other in found.plausible(one)] for one in stated]


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("What is the name of the quarterback who won?", "quarterback"),
        ("What type of school was it?", "school"),
        ("What is the largest city of Texas?", "city"),
        ("What was the last name of the player?", "player"),
        ("Which forest is burning?", "forest"),
        ("He and she where what kind of geographers?", "geographers"),
        ("Where was he born?", "where"),
        ("What is another name for it?", "what"),
    ],
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
