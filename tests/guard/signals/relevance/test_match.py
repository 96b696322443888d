"""Match features against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard.engine.passage_store import EncodedText
from knowgate.guard.signals.relevance.late_interaction import (
    PassageMatch,
    QuestionTokens,
    joined,
    match,
    match_values,
)

CLS, SEP = 1, 2
NONE = [0.0, 0.0, 0.0]
X, Y, Z = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
#        0    CLS  SEP  3    4    5
IDF = np.asarray([9.0, 0.0, 0.0, 3.0, 1.0, 0.0], dtype=np.float32)


def text(
    ids: list[int], vectors: list[list[float]], embedding: list[float] | None = None
) -> EncodedText:
    """A window with [CLS] and [SEP] of no direction around it."""
    return EncodedText(
        np.asarray([CLS, *ids, SEP], dtype=np.int32),
        np.asarray([NONE, *vectors, NONE], dtype=np.float32),
        np.asarray(X if embedding is None else embedding, dtype=np.float32),
    )


def asked(ids: list[int], vectors: list[list[float]]) -> QuestionTokens:
    return QuestionTokens.of(text(ids, vectors), IDF)


def test_question_tokens_weigh_by_idf_without_the_marks() -> None:
    found = asked([3, 4], [[3.0, 4.0, 0.0], [0.0, 0.0, 0.5]])
    assert found.ids.tolist() == [3, 4]
    assert found.weights.tolist() == [0.75, 0.25]
    assert found.text.embedding.tolist() == X


def test_tokens_that_all_weigh_nothing_weigh_alike() -> None:
    assert asked([5, 5], [X, Y]).weights.tolist() == [0.5, 0.5]


def test_each_question_token_takes_its_best_cosine_over_all_windows() -> None:
    question = asked([3, 4], [X, Y])
    first = text([4, 5], [[0.6, 0.8, 0.0], Z], embedding=[0.5, 0.0, 0.5])
    second = text([5], [[0.8, 0.6, 0.0]], embedding=[0.25, 0.5, 0.0])

    found = match(question, [first, second], 2)

    assert found.best == pytest.approx([0.8, 0.8])
    assert found.exact.tolist() == [0.0, 1.0]
    assert found.cosine == 0.5
    # Two windows two apart, the second of three word pieces with its marks.
    assert found.pieces == 2 + 3


def test_the_length_of_a_vector_does_not_matter() -> None:
    question = asked([3], [[2.0, 0.0, 0.0]])
    found = match(question, [text([4], [[6.0, 8.0, 0.0]])], 9)
    assert found.best == pytest.approx([0.6])


def test_features_are_weighted_means_less_the_length_penalty() -> None:
    question = asked([3, 4], [X, Y])
    found = PassageMatch(
        0.5,
        np.asarray([0.75, 0.25], dtype=np.float32),
        np.asarray([1.0, 0.0], dtype=np.float32),
        200,
    )
    penalty = 0.06 * math.log(2)

    values = match_values(question, found, 0.06)

    assert values == pytest.approx(
        {
            "cosine": 0.5,
            "idf_match": 0.75 * 0.75 + 0.25 * 0.25 - penalty,
            "match": 0.5 - penalty,
            "coverage": 0.75 - penalty,
        }
    )


@pytest.mark.parametrize(("pieces", "sign"), [(20, 1), (100, 0), (1000, -1)])
def test_the_penalty_raises_short_passages_and_lowers_long_ones(pieces: int, sign: int) -> None:
    question = asked([3], [X])
    found = PassageMatch(0.0, np.zeros(1, dtype=np.float32), np.zeros(1, dtype=np.float32), pieces)
    values = match_values(question, found, 0.1)
    assert values["match"] == pytest.approx(-0.1 * math.log(pieces / 100))
    assert np.sign(values["match"]) == sign
    assert match_values(question, found, 0.0)["match"] == 0.0


def test_a_question_without_tokens_matches_nothing() -> None:
    question = asked([], [])
    found = match(question, [text([3], [X])], 9)
    assert match_values(question, found, 0.06) == {
        "cosine": 1.0,
        "idf_match": -1.0,
        "match": -1.0,
        "coverage": 0.0,
    }
    assert joined([found, found]).best.shape == (0,)


def test_passages_taken_as_one_meet_each_token_by_the_best_of_them() -> None:
    one = PassageMatch(0.25, np.asarray([0.5, 0.0], np.float32), np.asarray([1, 0], np.float32), 30)
    two = PassageMatch(0.5, np.asarray([0.25, 0.75], np.float32), np.zeros(2, np.float32), 80)
    found = joined([one, two])
    assert (found.cosine, found.pieces) == (0.5, 80)
    assert found.best.tolist() == [0.5, 0.75]
    assert found.exact.tolist() == [1.0, 0.0]


def test_one_passage_taken_as_one_is_itself() -> None:
    one = PassageMatch(0.25, np.asarray([0.5], np.float32), np.ones(1, np.float32), 30)
    found = joined([one])
    assert (found.cosine, found.pieces) == (one.cosine, one.pieces)
    assert found.best.tolist() == one.best.tolist()
    assert found.exact.tolist() == one.exact.tolist()


cosines = st.floats(-1.0, 1.0, width=32)


@st.composite
def matches(draw: st.DrawFn) -> list[PassageMatch]:
    tokens = draw(st.integers(1, 4))
    return [
        PassageMatch(
            draw(cosines),
            np.asarray(draw(st.lists(cosines, min_size=tokens, max_size=tokens)), np.float32),
            np.asarray(draw(st.lists(st.booleans(), min_size=tokens, max_size=tokens)), np.float32),
            draw(st.integers(2, 4000)),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]


@settings(max_examples=20, deadline=None)
@given(found=matches(), data=st.data())
def test_joining_never_lowers_a_match_and_knows_no_order(
    found: list[PassageMatch], data: st.DataObject
) -> None:
    together = joined(found)
    for one in found:
        assert (together.best >= one.best).all()
        assert (together.exact >= one.exact).all()
        assert together.cosine >= one.cosine
    again = joined(data.draw(st.permutations(found)))
    assert again.best.tolist() == together.best.tolist()
    assert again.exact.tolist() == together.exact.tolist()
    assert (again.cosine, again.pieces) == (together.cosine, together.pieces)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_further_window_never_lowers_the_match(data: st.DataObject) -> None:
    directions = st.sampled_from([X, Y, Z, [-1.0, 0.0, 0.0], [0.6, 0.8, 0.0]])
    windows = [
        text([data.draw(st.integers(3, 5)) for _ in vectors], vectors, data.draw(directions))
        for vectors in data.draw(
            st.lists(st.lists(directions, min_size=0, max_size=3), min_size=2, max_size=4)
        )
    ]
    question = asked([3, 4], [X, Y])
    fewer, all_of_them = (match(question, those, 9) for those in (windows[:-1], windows))
    assert (all_of_them.best >= fewer.best).all()
    assert (all_of_them.exact >= fewer.exact).all()
    assert all_of_them.cosine >= fewer.cosine
