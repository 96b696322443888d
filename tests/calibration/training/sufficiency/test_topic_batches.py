"""Batches: the same for the same seed, and honest about what may suffice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.calibration.training.cases import (
    TopicBatch,
    TopicBatches,
    TrainingQuestion,
)
from tests.calibration.training.sufficiency.knowledge import hash_embedding, made_up_questions

WORDS = ["alpha", "beta", "gamma", "delta", "seven", "nine", "opens", "costs"]


def _same(first: TopicBatch, second: TopicBatch) -> bool:
    return first[:2] == second[:2] and np.array_equal(first[2], second[2])


def _draws(questions: list[TrainingQuestion], seed: int, count: int = 3) -> list[TopicBatch]:
    batches = TopicBatches(
        questions, hash_embedding, seed=seed, batch_questions=5, batch_passages=9
    )
    return [batches.draw() for _ in range(count)]


passages = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)


@st.composite
def question_sets(draw: st.DrawFn) -> list[TrainingQuestion]:
    found = []
    for number in range(draw(st.integers(1, 14))):
        passage = draw(passages)
        others = [p for p in draw(st.lists(passages, max_size=3)) if p != passage]
        found.append(
            TrainingQuestion(
                # Some questions come twice, with another passage.
                id=f"q{draw(st.integers(0, 11))}",
                text=f"question {number}?",
                passage=passage,
                topic=draw(st.sampled_from("ab")),
                source=draw(st.sampled_from("xy")),
                answer=draw(st.none() | st.sampled_from(WORDS)),
                negatives=tuple(others),
            )
        )
    return found


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(questions=question_sets(), seed=st.integers(0, 3))
def test_a_batch_keeps_its_promises(questions: list[TrainingQuestion], seed: int) -> None:
    by_text = {question.text: question for question in questions}
    suffices: dict[str, set[str]] = {}
    for question in questions:
        suffices.setdefault(question.id, set()).add(question.passage)
    for texts, told, unusable in _draws(questions, seed):
        n, m = len(texts), len(told)
        assert unusable.shape == (n, m)
        assert 1 <= n <= 5
        assert n <= m <= 9
        assert len(set(told)) == m
        chosen = [by_text[text] for text in texts]
        assert len({question.id for question in chosen}) == n
        assert told[:n] == [question.passage for question in chosen]
        assert not unusable[np.arange(n), np.arange(n)].any()
        rows = hash_embedding(told)
        for i, question in enumerate(chosen):
            for j, text in enumerate(told):
                if i == j or text in question.negatives:
                    assert not unusable[i, j]
                    continue
                alike = float(rows[i] @ rows[j])
                if abs(alike - 0.9) < 1e-4:
                    continue
                assert unusable[i, j] == (
                    text in suffices[question.id]
                    or alike > 0.9
                    or (question.answer is not None and question.answer in text.split())
                )


@settings(max_examples=15, deadline=None)
@given(questions=question_sets(), seed=st.integers(0, 100))
def test_the_same_seed_draws_the_same_batches(questions: list[TrainingQuestion], seed: int) -> None:
    again = zip(_draws(questions, seed), _draws(questions, seed), strict=True)
    assert all(_same(first, second) for first, second in again)


def test_answers_count_as_whole_words() -> None:
    questions = [
        TrainingQuestion("a", "a?", "It opens at nine.", "t", answer="nine"),
        TrainingQuestion("b", "b?", "Ninety tickets are left over today.", "t"),
        TrainingQuestion("c", "c?", "Nobody comes before Nine, says the porter.", "t"),
    ]
    [(texts, told, unusable)] = _draws(questions, 0, 1)
    assert dict(zip(told, unusable[texts.index("a?")], strict=True)) == {
        "It opens at nine.": False,
        "Ninety tickets are left over today.": False,
        "Nobody comes before Nine, says the porter.": True,
    }


def test_known_negatives_fill_the_batch_and_stay_usable_whatever_they_hold() -> None:
    questions = [
        replace(question, answer="every", negatives=(f"It opens every year. {question.id}",))
        for question in made_up_questions(8)
    ]
    for texts, told, unusable in _draws(questions, 3):
        assert (len(told), len(texts)) == (9, 5)
        own = [told.index(text) for text in told if text.startswith("It opens every year. q")]
        assert len(own) == 4
        for column in own:
            # Usable against the question it was given for, and held back from the others.
            assert int((~unusable[:, column]).sum()) == 1


def test_questions_of_a_topic_meet_each_other_unless_it_is_small() -> None:
    large = made_up_questions()
    small = [TrainingQuestion(f"s{i}", f"s{i}?", f"small {i}", "hamlet") for i in range(3)]
    embedding = TopicBatches(large + small, hash_embedding, seed=0, batch_questions=4)
    texts = {question.text for question in large}
    seen_small = False
    for _ in range(60):
        drawn = embedding.draw()[0]
        if drawn[0].startswith("s"):
            # Three passages make no batch: the whole source is drawn from.
            seen_small = True
            assert len(drawn) == 4
        else:
            assert set(drawn) <= texts
    assert seen_small
