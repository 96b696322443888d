"""Cases: the passage among its neighbours, and the neighbours alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from knowgate.calibration.training.cases import (
    SetCase,
    TrainingQuestion,
    nearest_insufficient,
    retrieval_cases,
)

# Degrees from the question; the passage of the question lies at 0.
ANGLES = {
    "question": 0.0, "own": 10.0, "near": 40.0, "middle": 50.0, "far": 60.0, "twin": 12.0,
    "it says nine": 38.0, "answer nine": 39.0, "farther": 70.0, "farthest": 80.0, "other": 45.0,
}  # fmt: skip


def turned(texts: Sequence[str]) -> NDArray[np.float32]:
    """Directions in the plane, by `ANGLES`."""
    radians = np.radians([ANGLES[text] for text in texts])
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


QUESTION = TrainingQuestion("q", "question", "own", "t", source="s")


def test_rivals_are_the_nearest_first() -> None:
    pool = ["far", "near", "own", "middle", "near"]
    assert nearest_insufficient(QUESTION, pool, turned, 2) == ["near", "middle"]
    assert nearest_insufficient(QUESTION, pool, turned, 9) == ["near", "middle", "far"]


def test_a_passage_like_the_own_one_is_no_rival() -> None:
    assert nearest_insufficient(QUESTION, ["twin", "far"], turned, 5) == ["far"]


def test_a_passage_with_the_answer_is_no_rival() -> None:
    asked = replace(QUESTION, answer="Nine!")
    pool = ["it says nine", "middle"]
    assert nearest_insufficient(asked, pool, turned, 5) == ["middle"]
    assert nearest_insufficient(replace(asked, answer="ni"), pool, turned, 5) == pool


def test_a_known_negative_is_a_rival_whatever_it_holds() -> None:
    asked = replace(QUESTION, answer="nine", negatives=("answer nine", "twin"))
    assert nearest_insufficient(asked, ["far"], turned, 5) == ["twin", "answer nine", "far"]


def test_a_further_sufficient_passage_is_no_rival() -> None:
    asked = replace(QUESTION, others=("near",))
    assert nearest_insufficient(asked, ["near", "far"], turned, 5) == ["far"]


def test_each_question_gives_a_set_with_its_passage_and_one_without() -> None:
    pool = ["own", "near", "middle", "far", "farther", "farthest", "other"]
    assert retrieval_cases([QUESTION], {"t": pool}, turned) == [
        SetCase("q", "question", ("own", "near", "other", "middle", "far"), True, "s"),
        SetCase("q", "question", ("near", "other", "middle", "far", "farther"), False, "s"),
    ]
