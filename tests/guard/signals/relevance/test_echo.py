"""Text that asks is found, and what a passage tells is kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard.signals.relevance._echo import StatedText
from knowgate.guard.signals.relevance.late_interaction import PassageMatch
from knowgate.guard.signals.relevance.match_model import EchoMix
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer, beyond

QUESTION = "How long can I try the Team plan for free?"
YES_NO = "Can I pay the library fee by card?"
LIST = "plan free long Team plan free long Team"


def _told(question: str, passage: str) -> str | None:
    return StatedText.of(question, passage).stated


def test_text_that_asks_is_taken_out() -> None:
    for passage, told in [
        (QUESTION, ""),
        (QUESTION.upper(), ""),
        ("how long can i try the team plan for free", ""),
        ("How long, can I try; the Team plan: for free!", ""),
        # A zero-width space, and an accent.
        ("How l\u200bong can I try the T\u00e9am plan for free", ""),
        (f"{QUESTION} For 21 days.", "For 21 days."),
        (f"Q: {QUESTION} A: For 21 days.", "For 21 days."),
        (f"The office is closed. {QUESTION}", "The office is closed."),
        ("How long can you try the Team plan free of charge: 21 days", "of charge: 21 days"),
        # Any question asks, whatever it asks.
        ("Do you have a dog? Dogs must be registered.", "Dogs must be registered."),
        ("1. Who may borrow books?\n2. When is the pool open?\n3. Is it heated?", ""),
        (LIST, ""),
        (f"Dogs must be registered. {LIST}", "Dogs must be registered."),
    ]:
        assert _told(QUESTION, passage) == told


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        (QUESTION, "You can try the Team plan for 21 days at no cost."),
        (QUESTION, "The Team plan is free for schools."),
        (QUESTION, ""),
        # The words of a yes/no question in the order of a statement answer it.
        (YES_NO, "You can pay the library fee by card."),
        ("Is the pool heated?", "The pool is heated."),
        ("What is MediSave?", "MediSave is a savings scheme."),
        ("plan", "plan"),
        ("", "The pool is heated."),
    ],
)
def test_text_that_tells_is_left_as_it_is(question: str, passage: str) -> None:
    assert StatedText.of(question, passage) == StatedText(passage, None)


def test_a_list_of_words_is_left_out_even_where_the_rest_answers() -> None:
    found = StatedText.of(QUESTION, f"{QUESTION}\nFor 21 days.\n{LIST}")
    assert found == StatedText(kept=f"{QUESTION}\nFor 21 days.", stated="For 21 days.")


@pytest.mark.parametrize(
    ("passage", "replied"),
    [
        (f"We sell plans. {QUESTION} No entry yet.", "No entry yet."),
        (f"We sell plans. {QUESTION}", ""),
        (f"{QUESTION} For 21 days.", None),
        (f"For 21 days.\n\nOn Monday you wrote:\n> {QUESTION}", None),
    ],
)
def test_an_answer_stands_after_the_question(passage: str, replied: str | None) -> None:
    found = StatedText.of(QUESTION, passage)
    assert found.stated is not None
    assert found.replied == replied


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        # Hardly another word than the question's, or another name, which would be a yes or no.
        ("How are plan refunds paid?", "Plan refunds are paid. In full."),
        ("How are plan refunds paid?", "Plan refunds are settled for members. In full."),
        ("Do you pay plan refunds?", "We do pay plan refunds. In full."),
        ("Do you try seats?", "We do try Harbour. In full."),
        # Entries of a table of contents, keywords in a row, another name.
        ("When are plan refunds paid?", "Contents: Plan refunds are paid (4); Taxes (5)"),
        (QUESTION, '{"tags": ["misc", "Team", "plan", "free", "try"], "owner": "nobody"}'),
        ("When does Deskline Plus bill seats?", "In March Harbour Plus bills seats anew."),
        # Its words, one by one.
        (QUESTION, "It took long. We made a plan. Do try it. The Team was late. Entry is free."),
    ],
)
def test_a_strict_reading_leaves_out_doubtful_sentences(question: str, passage: str) -> None:
    cheap, strict = StatedText.of(question, passage), StatedText.of(question, passage, 5.0)
    assert strict.stated is not None
    assert len(strict.kept) < len(cheap.kept)
    words = {word.strip('.,?";[]{}').casefold() for word in strict.stated.split()}
    assert words.isdisjoint({"refunds", "team", "plan", "free", "seats", "try"})


def test_a_strict_reading_keeps_what_answers() -> None:
    for question, told in (
        (YES_NO, "The desk takes every card and coins for its fees."),
        ("How long is the bridge?", "The bridge is three miles long."),
        (QUESTION, "You can try the Team plan for 21 days at no cost."),
    ):
        assert StatedText.of(question, told, 5.0) == StatedText(told, None)


def test_circumstances_that_the_question_states_are_no_answer() -> None:
    question = "I have lost my card. Who blocks it?"
    assert _told(question, question) == ""
    assert _told(question, "I have lost my card. The desk blocks it.") == "The desk blocks it."


@settings(max_examples=20, deadline=None)
@given(question=st.text(max_size=80), passage=st.text(max_size=200))
def test_any_text_is_accepted(question: str, passage: str) -> None:
    StatedText.of(question, passage, 5.0)
    found = StatedText.of(question, passage)
    assert isinstance(found.kept, str)
    assert found.stated is None or isinstance(found.stated, str)
    again = StatedText.of(question, f"{question}? {passage} {question}\n" * 3)
    assert again == StatedText.of(question, f"{question}? {passage} {question}\n" * 3)


@pytest.mark.parametrize("passage", [
    "word " * 20_000, f"{QUESTION} " * 2_000, "plan free " * 5_000, "?" * 50_000, "plan;" * 5_000,
])  # fmt: skip
@pytest.mark.parametrize("strictness", [0.0, 5.0])
def test_long_texts_are_read_in_bounded_time(passage: str, strictness: float) -> None:
    # Quadratic work in any of these would take minutes.
    StatedText.of(QUESTION, passage, strictness)
    words = [f"w{a}{b}{c}sel" for a in "aeiou" for b in "bdfgk" for c in "lmnrstvxyz"]
    StatedText.of(" ".join(words), " ".join(words[::-1]) + passage, strictness)


def test_text_that_asks_counts_by_the_share_of_what_is_told() -> None:
    told = PassageMatch(0.0, np.zeros(2, np.float32), np.zeros(2, np.float32), 4)
    kept = PassageMatch(1.0, np.array([1.0, 0.5], np.float32), np.ones(2, np.float32), 40)

    half = told.towards(kept, 0.5)

    assert (half.cosine, half.pieces) == (0.5, 40)
    assert half.best.tolist() == [0.5, 0.25]
    assert half.exact.tolist() == [0.5, 0.5]
    assert told.towards(kept, 1.0).best.tolist() == kept.best.tolist()
    mix = EchoMix(bias=-1.0, weights=(2.0, *[0.0] * 7))
    assert mix.share([0.5, *[9.0] * 7]) == 0.5


def test_what_is_told_is_held_against_the_best_of_the_other_passages() -> None:
    own = [0.5, 0.25, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0]
    others = [[0.25, 0.5, 0.0, 9.0, 9.0], [0.0, 0.125, -1.0, 9.0, 9.0]]
    assert beyond(own, others) == [*own[:5], 0.25, -0.25, 0.0]
    assert beyond(own, []) == own


SETS = [
    [QUESTION, "The office is closed."],
    [f"{QUESTION} For 21 days.", "The office is closed."],
    [LIST, QUESTION],
    ["For 21 days.", "The office is closed."],
]


def test_a_score_never_depends_on_its_neighbours(scorer: SufficiencyScorer) -> None:
    alone = [scorer.score_set(QUESTION, passages) for passages in SETS]
    assert scorer.score_sets([QUESTION] * len(SETS), SETS) == alone
    pairs = [(QUESTION, passage) for passages in SETS for passage in passages]
    scores = [score for one in alone for score in one.scores]
    assert scorer.score_pairs(pairs).tolist() == scores


def test_a_passage_that_tells_nothing_is_no_passage(scorer: SufficiencyScorer) -> None:
    alone = scorer.score_set(QUESTION, ["The office is closed."])
    judged = scorer.score_set(QUESTION, SETS[0])
    assert judged.joint == alone.joint
    assert judged.scores[1] == alone.scores[0]
    silent = scorer.score_set(QUESTION, SETS[2])
    assert silent.joint == silent.scores[0] == silent.scores[1]
    assert silent.joint < alone.joint


def test_question_and_answer_score_higher_than_the_question_with_a_stub(
    scorer: SufficiencyScorer,
) -> None:
    texts = [f"{QUESTION} {rest}" for rest in ("The Team plan is free for 21 days.", "Read on.")]
    answered, stub = scorer.score(QUESTION, texts)
    assert answered > stub
