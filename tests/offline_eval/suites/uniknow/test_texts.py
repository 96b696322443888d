"""Windows around answers, answers in texts, and contexts that a model can read."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard.testing import ScriptedLanguageModel
from knowgate.offline_eval.data.answers.matching import holds_answer, is_right
from knowgate.offline_eval.data.answers.occurrences import occurrences
from knowgate.offline_eval.suites.uniknow._cases import Dataset, PromptSet, Question
from knowgate.offline_eval.suites.uniknow._settings import UniKnowSettings
from knowgate.offline_eval.suites.uniknow._windows import best_window, window_around, word_weights
from knowgate.offline_eval.suites.uniknow.plan import fitting_size
from tests.support.tables import table


def test_an_answer_stands_for_itself_only_as_whole_words() -> None:
    assert occurrences("nineteen or nine", ["nine"]) == [(12, 16)]
    assert occurrences("In 19.5 and 1,950 there is no 95, but 9 there is.", ["9"]) == [(38, 39)]
    assert occurrences("The U.S. is here; the USA too", ["US"]) == []


def test_the_longer_of_two_overlapping_answers_counts() -> None:
    assert occurrences("the Denver Broncos", ["Broncos", "Denver Broncos"]) == [(4, 18)]


def test_chinese_answers_need_no_word_boundary() -> None:
    assert occurrences("他在北京大学读书", ["北京"]) == [(2, 4)]
    assert occurrences("于2016年赢了", ["2016年"]) == [(1, 6)]
    assert occurrences("在NASA工作", ["NASA"]) == [(1, 5)]


def test_numbers_dates_and_accents_are_found_in_other_spellings() -> None:
    assert holds_answer("About 4,310 people.", ["4310"])
    assert holds_answer("It had twenty-three rooms.", ["23"])
    assert holds_answer("Beyoncé sang.", ["Beyonce"])
    assert holds_answer("It was on 4 July 1776.", ["July 4, 1776"])
    assert not holds_answer("Nineteen ninety.", ["nine"])


WORDS = st.lists(
    st.text(st.characters(categories=["L", "Nd"]), min_size=1, max_size=8), max_size=160
)


@settings(max_examples=20, deadline=None)
@given(before=WORDS, after=WORDS, ends=st.sampled_from([" ", ". "]))
def test_a_window_holds_the_answer_and_is_no_longer_than_asked(
    before: list[str], after: list[str], ends: str
) -> None:
    text = f"{ends.join(before)} Ada Lovelace {ends.join(after)}"
    start, end = next(iter(occurrences(text, ["Ada Lovelace"])))

    window = window_around(text, (start, end), words=40)

    assert occurrences(window, ["Ada Lovelace"])
    assert window in text
    plain = all(word.isascii() for word in text.split())
    assert not plain or len(window.split()) <= 40


def test_a_window_begins_and_ends_with_a_sentence_where_that_costs_little() -> None:
    sentence = "This sentence has exactly seven words here."
    text = " ".join([sentence] * 20 + ["Ada Lovelace did it."] + [sentence] * 20)

    window = window_around(text, occurrences(text, ["Ada Lovelace"])[0])

    assert window.startswith("This")
    assert window.endswith("here.")
    assert 75 <= len(window.split()) <= 100


def test_chinese_windows_hold_about_as_much_as_a_hundred_words() -> None:
    text = "很久以前的事情。" * 60 + "那是爱达写的。" + "很久以后的事情。" * 60

    window = window_around(text, occurrences(text, ["爱达"])[0])

    assert "爱达" in window
    assert 120 <= len(window) <= 170


def test_the_window_that_shares_rare_words_with_the_question_wins() -> None:
    filler = "The old town has many houses and the people like it. " * 12
    text = f"Ada visited the town. {filler}The first program was written by Ada. {filler}"
    weights = word_weights([text, filler, "The program of the town."])

    window = best_window("Who wrote the first program?", ["Ada"], [text], weights)

    assert window is not None
    assert "first program" in window
    assert best_window("Who?", ["Bob"], [text], weights) is None


PROMPTS = PromptSet("{question}", "{context} {question}", "{question}", "{context} {question}")
DATASET = Dataset(
    "texts", (Question("q", "when?", ("noon",), "texts", "g", ("word " * 300 + "noon",)),), PROMPTS
)


@dataclass
class _Windowed(ScriptedLanguageModel):
    """Reads a letter as a token."""

    context_window: int | None = 100
    max_new_tokens = 8

    def __init__(self, context_window: int | None) -> None:
        super().__init__({})
        self.context_window = context_window

    def token_ids(self, text: str) -> list[int]:
        return list(range(len(text)))


def _fit(window: int | None, *, several: bool = False) -> tuple[int, int]:
    return fitting_size(_Windowed(window), DATASET, UniKnowSettings(beyond=several))


def test_a_wide_window_takes_passages_of_the_usual_length() -> None:
    assert _fit(100_000) == (100, 4)
    assert _fit(None) == (100, 4)


def test_a_narrow_window_shortens_passages_and_then_their_number() -> None:
    # 5 tokens a word, 33 for question, prompt and answer: (333 - 33) · .9 / 5 = 54 words.
    assert _fit(333) == (54, 2)
    assert _fit(333, several=True) == (27, 2)
    # 115 words: two passages of 57.
    assert _fit(677, several=True) == (57, 2)


def test_a_passage_never_has_fewer_than_ten_words() -> None:
    assert _fit(40)[0] == 10


def test_case_punctuation_articles_and_spaces_do_not_matter() -> None:
    for answer, accepted, expected in table(
        __file__, "case punctuation articles and spaces do not matter"
    ):
        assert is_right(answer, [accepted]) is expected
