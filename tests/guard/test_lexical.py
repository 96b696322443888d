"""Lexical coverage against values worked out by hand (k1 = 0.3, b = 0.75)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard.signals.relevance import LexicalScorer


def part(times: int, words: int) -> float:
    """What a word counts that a passage of so many content words has so often."""
    return times / (times + 0.3 * (0.25 + 0.75 * words / 100))


# Weights of words with so many letters.
THREE, FOUR, FIVE, SEVEN = 1.9, 2.2, 2.5, 3.1
BOTH = SEVEN + FOUR


@pytest.mark.parametrize(
    ("question", "passage", "score"),
    [
        # "hours" and "hour" are one word of four letters; "the", "in", "has" count for nothing.
        ("library hours", "The library in Rome", part(1, 2) * SEVEN / BOTH),
        ("library hours", "The library has bookshop hours", part(1, 3)),
        ("library hours", "Tea takes an hour", part(1, 3) * FOUR / BOTH),
        ("library hours", "LIBRARY library in Rome", part(2, 3) * SEVEN / BOTH),
        ("library library", "library", part(1, 1)),
        ("library", "bookshop", 0.0),
        ("library", "", 0.0),
        ("what is the", "what is the", 0.0),
        ("who are you?", "This is who we are.", part(1, 0) * (1.9 + 1.9) / (1.9 + 1.9 + 1.9)),
        ("", "library", 0.0),
        ("?!", "?!", 0.0),
        ("护照", "我的护照", part(1, 3)),
        ("护照在", "护照", part(1, 1) / 2),
        ("护", "护", part(1, 1)),
        ("护照 office", "the office for 护照 is in Seoul", part(1, 3)),
        # With article and vowel signs, and without.
        ("المكتبة", "في مَكتبة", part(1, 1)),
        ("متى تفتح المكتبة", "والمكتبه", part(1, 1) * FOUR / (FOUR + FOUR)),
        ("متى تفتح المكتبة؟", "تَفْتَحُ مكتبة", part(1, 2)),
        # Of the question's own language.
        ("Wann öffnet die Bibliothek?", "wann die", 0.0),
        # A copy of the question says nothing, and counts in full beside what covers enough.
        ("When are library hours?", "When are library hours?", 0.0),
        ("When are library hours?", "When are library hours? Dogs bark.", 0.0),
        (
            "When are library hours?",
            "When are library hours? The library: at nine.",
            (part(2, 4) * SEVEN + part(1, 4) * FOUR) / BOTH,
        ),
    ],
)
def test_coverage_is_as_worked_out_by_hand(
    lexical: LexicalScorer, question: str, passage: str, score: float
) -> None:
    assert lexical.score(question, [passage]).tolist() == [pytest.approx(score, abs=1e-15)]


def test_a_long_passage_needs_a_word_more_often(lexical: LexicalScorer) -> None:
    told = "The library opens at nine on weekdays. "
    short, long, often = lexical.score("library", [told, told + "Dogs bark. " * 900, told * 10])
    assert long < short < often < 1.0


def test_nothing_gives_no_scores(lexical: LexicalScorer) -> None:
    assert lexical.score("q", []).shape == (0,)
    assert lexical.score_pairs([]).shape == (0,)


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=60)), max_size=5))
@settings(max_examples=25, deadline=None)
def test_pairs_and_single_scores_are_equal_and_in_range(pairs: list[tuple[str, str]]) -> None:
    lexical = LexicalScorer()
    together = lexical.score_pairs(pairs).tolist()
    assert together == [lexical.score(q, [p])[0] for q, p in pairs]
    assert all(0.0 <= score < 1.0 for score in together)
