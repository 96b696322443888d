"""Which passages probably hold an answer."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.offline_eval.judging.labelling.review_session import PROBABLE, answer_scores
from tests.offline_eval.judging.labelling.reviewing.small_run import PASSAGES


def scores(question: str, answer: str, *passages: str) -> tuple[float, ...]:
    texts = {str(at): text for at, text in enumerate(passages)} | PASSAGES
    names = tuple(map(str, range(len(passages))))
    return answer_scores([(question, answer, names)], texts)[0]


def test_a_passage_that_says_it_in_other_words_is_probable_and_others_are_not() -> None:
    found = scores(
        "What do I pay for an overdue book?",
        "20 cents a day",
        PASSAGES["news#1"],
        PASSAGES["news#2"],
        PASSAGES["kids#1"],
    )
    assert found[0] >= PROBABLE
    assert max(found[1:]) < PROBABLE


def test_a_passage_with_another_number_does_not_answer() -> None:
    right, wrong = scores(
        "How long is the trial?", "21 days", "You can try it for 21 days.", "It takes 14 days."
    )
    assert right >= PROBABLE
    assert wrong == 0.0


def test_words_of_the_question_say_nothing_of_the_answer() -> None:
    (found,) = scores(
        "Which file names the release of the machine?",
        "/etc/version names the release of the machine",
        "The release of the machine has a name.",
    )
    assert found < PROBABLE


@settings(max_examples=10, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=3),
    st.lists(st.text(max_size=40), min_size=1, max_size=3),
)
def test_any_texts_have_one_score_per_passage_within_0_and_1(
    asked: list[tuple[str, str]], passages: list[str]
) -> None:
    texts = {str(at): text for at, text in enumerate(passages)}
    sought = [(question, answer, tuple(texts)) for question, answer in asked]

    found = answer_scores(sought, texts)

    assert [len(one) for one in found] == [len(texts)] * len(sought)
    assert all(0.0 <= score <= 1.0 for one in found for score in one)
