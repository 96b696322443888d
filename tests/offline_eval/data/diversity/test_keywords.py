"""Uniqueness by words: what it is, and what it is not."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from knowgate.offline_eval.data.diversity.uniqueness import (
    keyword_distinct,
    keyword_uniqueness,
    original_keyword_scores,
    words_of,
)


def _as_defined(texts: list[str]) -> list[float]:
    """1 − the largest share of common information, pair by pair."""
    words = [set(words_of(text)) or {" ".join(text.split())} for text in texts]
    counts = Counter(word for some in words for word in some)
    information = {word: math.log((len(texts) + 1) / counts[word]) for word in counts}

    def said(some: set[str]) -> float:
        return sum(information[word] for word in some)

    return [
        1.0
        - max(
            (
                2 * said(some & other) / (said(some) + said(other))
                for at, other in enumerate(words)
                if at != own
            ),
            default=0.0,
        )
        for own, some in enumerate(words)
    ]


def test_the_score_is_the_share_of_information_that_the_nearest_has_not() -> None:
    texts = ["who pays tax", "who pays rent", "when is lunch"]

    # Two of three texts have "who" and "pays", log(4/2) each; "tax" and "rent" say log(4).
    shared = 2 * math.log(2)
    expected = 1 - 2 * shared / (2 * (shared + math.log(4)))
    assert keyword_uniqueness(texts).tolist() == pytest.approx([expected, expected, 1.0], abs=1e-6)


def test_texts_of_many_blocks_are_scored_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(3)
    texts = [" ".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(200)]
    at_once = keyword_uniqueness(texts)

    monkeypatch.setattr("knowgate.offline_eval.data.diversity.uniqueness._PAIRS_AT_ONCE", 1400)

    assert keyword_uniqueness(texts).tolist() == at_once.tolist()
    assert at_once.tolist() == pytest.approx(_as_defined(texts), abs=1e-5)


def test_the_score_does_not_grow_with_length_and_the_originals_does() -> None:
    # Each question has a twin that shares half of its words, all of which are equally rare.
    texts, lengths = [], []
    for number, half in enumerate([2, 3, 5, 8, 12, 20] * 5):
        for twin in ("x", "y"):
            own = [f"{twin}{number}w{i}" for i in range(half)]
            texts.append(" ".join([f"s{number}w{i}" for i in range(half)] + own))
            lengths.append(2 * half)

    ours, original = keyword_uniqueness(texts), original_keyword_scores(texts)

    # What is shared is in two texts, what is not in one.
    n = len(texts)
    share = math.log((n + 1) / 2) / (math.log((n + 1) / 2) + math.log(n + 1))
    assert ours.tolist() == pytest.approx([1 - share] * n, abs=1e-5)
    assert np.corrcoef(original, lengths)[0, 1] > 0.95


def test_of_texts_with_much_in_common_the_first_is_kept() -> None:
    texts = ["who pays the levy on goods", "when is lunch", "who pays the levy on wares"]

    found = keyword_distinct(texts, min_uniqueness=0.6)

    assert found.kept.tolist() == [0, 1]
    assert found.nearest.tolist() == [-1, -1, 0]
    assert found.uniqueness[2] == pytest.approx(_as_defined(texts)[2], abs=1e-5)
    assert keyword_distinct(texts, min_uniqueness=0.0).kept.tolist() == [0, 1, 2]


def test_a_text_is_compared_with_what_is_kept_only() -> None:
    # b is near to a, c is near to b: once b is gone, c stays.
    texts = ["a1 a2 a3 b1", "a2 a3 b1 b2 b3", "b1 b2 b3 c1 c2"]

    found = keyword_distinct(texts, min_uniqueness=0.6)

    assert found.kept.tolist() == [0, 2]
    assert found.nearest.tolist() == [-1, 0, 0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What's 1,200.50 % of it?", ["what", "s", "1200_50", "of", "it"]),
        ("Ｆｕｌｌ ﬁle ÉTÉ", ["full", "file", "ete"]),
        ("税金 tax42", ["税", "金", "tax42"]),
        ("snake_case", ["snake", "case"]),
        ("…", []),
    ],
)
def test_words_are_what_is_left_without_spelling(text: str, words: list[str]) -> None:
    assert words_of(text) == words
