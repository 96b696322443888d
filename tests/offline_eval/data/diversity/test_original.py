"""The original's keyword score: its formula, and its faults."""

from __future__ import annotations

import math

import numpy as np
import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.data.diversity.uniqueness import (
    original_keyword_scores,
    original_keyword_selection,
)


def test_the_score_is_the_sum_of_tfidf_weights() -> None:
    texts = ["levy levy goods", "goods rent", "lunch"]

    # Sublinear counts times (log((1 + n) / (1 + df)) + 1), each row of length 1.
    rare, common = math.log(4 / 2) + 1, math.log(4 / 3) + 1
    first = np.array([(1 + math.log(2)) * rare, common])
    second = np.array([rare, common])
    expected = [float(row.sum() / np.linalg.norm(row)) for row in (first, second)]
    assert original_keyword_scores(texts).tolist() == pytest.approx([*expected, 1.0])


def test_copies_score_alike_and_as_high_as_any() -> None:
    texts = ["who owns copper mines", "who owns copper mines", "lunch time", "rent"]

    scores = original_keyword_scores(texts)

    assert scores[0] == scores[1] == scores.max()
    assert original_keyword_selection(scores).tolist()[:2] == [0, 1]


def test_preparing_the_texts_is_the_callers_choice() -> None:
    stemmed = original_keyword_scores(["pays", "paying"], prepare=lambda text: "pay x" + text[3:])

    assert stemmed.tolist() == pytest.approx([1.0, 1.0])  # "pay" is in all of them


def test_scores_at_the_threshold_are_kept() -> None:
    scores = np.array([0.0, 3.0, 10.0, 2.9])

    assert original_keyword_selection(scores, threshold=0.3).tolist() == [1, 2]
    assert original_keyword_selection(np.array([])).tolist() == []


def test_texts_without_words_are_refused() -> None:
    with pytest.raises(InputError, match="no word is left"):
        original_keyword_scores(["the", "of"])
