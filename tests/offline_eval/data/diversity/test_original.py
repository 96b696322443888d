"""The original's keyword score: its formula, and its faults."""

from __future__ import annotations

import math

import numpy as np
import pytest

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


def test_scores_at_the_threshold_are_kept() -> None:
    scores = np.array([0.0, 3.0, 10.0, 2.9])

    assert original_keyword_selection(scores, threshold=0.3).tolist() == [1, 2]
    assert original_keyword_selection(np.array([])).tolist() == []
