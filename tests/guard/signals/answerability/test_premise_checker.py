"""What the checker finds in questions and passages, and where it holds back."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import Veto
from knowgate.guard.contracts import Answerability, Premise, PremiseFault
from knowgate.guard.signals.answerability import PremiseChecker
from tests.support.tables import table

OPEN = PremiseChecker()
CLOSED = PremiseChecker(closed_world=True)
MOTHER = "The mother of Ann Lund is? Mary Lund"
LEADER = "Who leads Rill? Bo Rask"
BOTH = "Who leads Rill and is also the mother of Ann Lund?"


def fault(found: Answerability) -> str:
    return found.fault.value if found.fault else found.premise.value


def test_two_conditions_that_nobody_meets_leave_nobody() -> None:
    found = OPEN.detect(BOTH, ["Of no use.", LEADER, MOTHER])

    assert found == Answerability(
        Premise.UNANSWERABLE, PremiseFault.EMPTY_INTERSECTION, passages=(1, 2)
    )


@pytest.mark.parametrize(
    ("question", "passages"),
    table(__file__, "conditions are told apart in both languages"),
)  # fmt: skip
def test_conditions_are_told_apart_in_both_languages(question: str, passages: list[str]) -> None:
    assert fault(OPEN.detect(question, passages)) == "empty_intersection"


@pytest.mark.parametrize(
    "leaders", ["Mary Lund", "Bo Rask, Mary Lund", "Mary Lund of Rill", "Mary Lundt"]
)
def test_whom_both_conditions_may_mean_is_never_ruled_out(leaders: str) -> None:
    found = OPEN.detect(BOTH, [f"Who leads Rill? {leaders}", MOTHER])

    assert found.premise is not Premise.UNANSWERABLE


def test_whom_both_conditions_name_is_an_answer() -> None:
    found = OPEN.detect(BOTH, ["Who leads Rill? Bo Rask, Mary Lund", MOTHER])

    assert found == Answerability(Premise.ANSWERABLE, passages=(0, 1))


def test_half_of_the_facts_settles_nothing() -> None:
    assert OPEN.detect(BOTH, [MOTHER]).premise is Premise.UNDECIDED
    assert OPEN.detect(BOTH, [LEADER]).premise is Premise.UNDECIDED
    assert OPEN.detect(BOTH, []).premise is Premise.UNDECIDED


@pytest.mark.parametrize(
    "other",
    table(__file__, "an answer to another question is no answer"),
)
def test_an_answer_to_another_question_is_no_answer(other: str) -> None:
    assert OPEN.detect(BOTH, [other, MOTHER]).premise is Premise.UNDECIDED


def test_a_list_that_may_have_been_cut_is_not_complete() -> None:
    five = "Who leads Rill? Ao, Bo, Cy, Di, Ed"
    ten = f"{five}, Fi, Gus, Hal, Ida, Jo"

    assert OPEN.detect(BOTH, [five, MOTHER]).premise is Premise.UNDECIDED
    assert fault(CLOSED.detect(BOTH, [five, MOTHER])) == "empty_intersection"
    assert CLOSED.detect(BOTH, [ten, MOTHER]).premise is Premise.UNDECIDED


AWARDS = "what award did Ann Lund receive ? Prix Rill, Bell Medal"


@pytest.mark.parametrize(
    ("options", "expected"),
    table(__file__, "two options are held against the answers"),
)
def test_two_options_are_held_against_the_answers(options: str, expected: str) -> None:
    assert fault(OPEN.detect(f"what award did Ann Lund receive, {options} ?", [AWARDS])) == expected


def test_options_with_commas_and_an_or_in_their_names_are_read_in_every_way() -> None:
    clue = "what season is Arn? Family, season 1"
    question = "what season is Arn, {} ?"

    assert fault(OPEN.detect(question.format("Black or White, season 9 or Cape Cod"), [clue])) in (
        "false_options",
        "undecided",
    )
    right = OPEN.detect(question.format("Family, season 1 or Kodo, season 8"), [clue])
    assert right.premise is not Premise.UNANSWERABLE


def test_chinese_options_are_held_against_the_answers() -> None:
    clue = "雅尼获得了哪些奖项 ？ 国际妇女勇气奖, 克劳斯亲王奖"
    asked = "雅尼获得了哪些奖项， {}还是{} ？"

    assert fault(OPEN.detect(asked.format("英雄母亲", "世界杯"), [clue])) == "false_options"
    found = OPEN.detect(asked.format("英雄母亲", "克劳斯亲王奖"), [clue])
    assert found.premise is Premise.ANSWERABLE


FIRST = "When did Ann Lund start holding mayor of Rill the first time? 1951"
LAST = "When did Ann Lund stop holding member of the council the last time? 1971"


def test_a_time_outside_of_what_is_stated_is_impossible() -> None:
    for time, expected in [
        ("from 1907 to 1912", "impossible_time"),
        ("between 1973 and 1980", "impossible_time"),
        ("in the year of 1950", "impossible_time"),
        ("during 1990", "impossible_time"),
        ("after 1980", "impossible_time"),
        ("before 1940", "impossible_time"),
        ("in the 1930s", "impossible_time"),
        ("from 1940 to 1951", "undecided"),
        ("from 1955 to 1960", "undecided"),
        ("in 1971", "undecided"),
        # What ended in one year is often taken up in the next.
        ("in 1972", "undecided"),
        ("in 300 BC", "undecided"),
        ("between 1940 and 1945 or in 1955", "undecided"),
    ]:
        question = f"Which position did Ann Lund hold {time}?"

        assert fault(OPEN.detect(question, [FIRST, LAST])) == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    table(__file__, "chinese times are read"),
)
def test_chinese_times_are_read(question: str, expected: str) -> None:
    clues = [
        "让·蒙塔拉第一次担任法国国民议会议员的开始时间？ 1951",
        "让·蒙塔拉最后一次离职法国国民议会议员的结束时间？ 1971",
    ]

    assert fault(OPEN.detect(question, clues)) == expected


@pytest.mark.parametrize(
    "question",
    [
        "Which position did Ann Lund Meyer hold in 1907?",
        "Which position did Bo Rask hold in 1907?",
        "Which team did Ann Lund play for in 1907?",
        "What is the population of Rill in 1907?",
    ],
)
def test_the_times_of_another_subject_or_relation_tell_nothing(question: str) -> None:
    assert OPEN.detect(question, [FIRST, LAST]).premise is Premise.UNDECIDED


def test_one_holders_times_bound_an_office_in_a_closed_world_only() -> None:
    clue = "When did Ann Lund become the president of Rill the first time? 1951"
    question = "Who was the president of Rill between 1934 and 1939?"

    assert OPEN.detect(question, [clue]).premise is Premise.UNDECIDED
    assert fault(CLOSED.detect(question, [clue])) == "impossible_time"


def test_a_time_that_reaches_the_present_is_not_ruled_out_by_what_has_ended() -> None:
    question = "Which position did Ann Lund hold from 1990 to 2024?"

    assert fault(OPEN.detect(question, [FIRST, LAST])) == "impossible_time"
    found = PremiseChecker(now=2024).detect(question, [FIRST, LAST])
    assert found.premise is Premise.UNDECIDED


TRIPLES = ["Bo Rask — mayor of — Rill (1990–1995)", "Cy Ard — mayor of — Rill (1995–2001)"]


@pytest.mark.parametrize(
    ("question", "in_the_open", "in_a_closed_world"),
    [
        ("Who was the mayor of Rill in 1950?", "undecided", "impossible_time"),
        ("Who was the mayor of Rill in 1993?", "answerable", "answerable"),
        ("Who was the mayor of Rill from 1994 to 1998?", "undecided", "undecided"),
        ("Who was the mayor of Arn in 1950?", "undecided", "undecided"),
    ],
)
def test_triples_tell_all_there_is_in_a_closed_world_only(
    question: str, in_the_open: str, in_a_closed_world: str
) -> None:
    assert fault(OPEN.detect(question, TRIPLES)) == in_the_open
    assert fault(CLOSED.detect(question, TRIPLES)) == in_a_closed_world


def test_sentences_state_times_too() -> None:
    said = ["Much is told of Rill. From 1990 to 1995 the mayor of Rill was Bo Rask. It rains."]

    assert fault(CLOSED.detect("Who was the mayor of Rill in 1950?", said)) == "impossible_time"
    assert fault(CLOSED.detect("Who was the mayor of Rill in 1991?", said)) == "answerable"


@pytest.mark.parametrize(
    ("passages", "in_the_open"),
    [
        (["Ann — mother — Mary", "Rill — author — Bo"], "undecided"),
        (["The mother of Ann is Mary.", "The author of Rill is Bo."], "undecided"),
        (["Mary is the mother of Ann.", "Bo is the only author of Rill."], "empty_intersection"),
    ],
)
def test_sentences_and_triples_count_as_complete_where_they_say_so(
    passages: list[str], in_the_open: str
) -> None:
    question = "Who is the mother of Ann and also the author of Rill?"

    assert fault(OPEN.detect(question, passages)) == in_the_open
    assert fault(CLOSED.detect(question, passages)) == "empty_intersection"


def test_a_sentence_that_denies_states_nothing() -> None:
    question = "Who is the mother of Ann and also the author of Rill?"
    passages = ["Mary is not the mother of Ann.", "The author of Rill is Bo."]

    assert CLOSED.detect(question, passages).premise is Premise.UNDECIDED


@pytest.mark.parametrize(
    ("question", "passages"),
    [
        # Told where, asked when.
        ("When was Ann Lund born, 1809 or 1882?",
         ["Ann Lund was born in Rill. The year 1809 saw her birth."]),
        ("What is the Rill Gate made of, oak or brass?",
         ["The Rill Gate was made of stone. For its doors the makers chose oak."]),
        ("What is made of oak and also stands in Rill?",
         ["The Arn Gate is made of oak.", "The Bel Clock stands in Rill.",
          "In Rill stands the Cor Altar, for which the makers chose oak."]),
        ("How many people lived in Rill in 1939?",
         ["In 1939, 1300 people lived in Rill, but in 1945 only 420 people lived in Rill."]),
    ],
)  # fmt: skip
def test_what_a_sentence_may_say_in_words_not_understood_is_left_open(
    question: str, passages: list[str]
) -> None:
    assert CLOSED.detect(question, passages).premise is not Premise.UNANSWERABLE


@pytest.mark.parametrize(
    ("question", "passages", "expected"),
    table(__file__, "a closed world takes what is stated for all there is"),
)  # fmt: skip
def test_a_closed_world_takes_what_is_stated_for_all_there_is(
    question: str, passages: list[str], expected: str
) -> None:
    assert fault(CLOSED.detect(question, passages)) == expected


def test_some_times_are_impossible_by_themselves() -> None:
    for question, expected in table(__file__, "some times are impossible by themselves"):
        assert fault(OPEN.detect(question, ["Nothing of use."])) == expected


def test_a_far_future_that_the_passages_speak_of_is_left_to_them() -> None:
    found = OPEN.detect("Who rules Earth in 3000?", ["The film is set in 3000."])

    assert found.premise is Premise.UNDECIDED


@pytest.mark.parametrize(
    "question",
    table(__file__, "ordinary questions are left alone"),
)
def test_ordinary_questions_are_left_alone(question: str) -> None:
    passages = ["Who wrote Emma? Jane Austen", "Paris — capital of — France", "It is black."]

    assert CLOSED.detect(question, passages).premise is not Premise.UNANSWERABLE


def test_it_is_a_detector_whose_settings_are_in_its_fingerprint() -> None:
    assert isinstance(OPEN, Veto)
    assert OPEN.fingerprint.differences(PremiseChecker(closed_world=True, now=2024).fingerprint)
    assert OPEN.fingerprint == PremiseChecker().fingerprint


async def test_async_and_sync_agree() -> None:
    found = await asyncio.gather(*(OPEN.adetect(BOTH, [LEADER, MOTHER]) for _ in range(4)))

    assert found == [OPEN.detect(BOTH, [LEADER, MOTHER])] * 4


PIECES = st.sampled_from(
    ["Who", " is ", "the ", "Ann", " or ", ", ", "and also ", "?", "？", "又是", "既", "还是", "的",
     "1990", " from ", " to ", "年", "至", " — ", "\n", " ", "the mother of ", "时间", "第一次",
     "(", ")", "–", "\ud800", "\x00", "ﬁ", "’s", "When did ", " start ", "the first time",
     "February 30"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=24).map("".join))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(TEXTS, st.lists(TEXTS, max_size=4), st.booleans())
def test_any_question_and_any_passages_have_a_verdict(
    question: str, passages: list[str], closed_world: bool
) -> None:
    found = PremiseChecker(closed_world=closed_world).detect(question, passages)

    assert (found.fault is not None) == (found.premise is Premise.UNANSWERABLE)
    assert list(found.passages) == sorted(set(found.passages))
    assert all(0 <= index < len(passages) for index in found.passages)


def test_passages_of_any_length_come_to_an_end() -> None:
    for piece in table(__file__, "passages of any length come to an end"):
        # A pattern that backtracks would take hours.
        for question in ("Which position did Ann hold from 1907 to 1912?", BOTH, "a, b or c?"):
            CLOSED.detect(question, [piece * (100_000 // len(piece))])
            CLOSED.detect(piece * (900 // len(piece)), [LEADER, MOTHER])
