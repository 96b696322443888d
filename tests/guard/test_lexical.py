"""Lexical coverage against values worked out by hand (k1 = 1.2)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard.signals.relevance import LexicalScorer

ONCE, TWICE = 1 / 2.2, 2 / 3.2


@pytest.mark.parametrize(
    ("question", "passage", "score"),
    [
        ("library hours", "The library in Rome", ONCE / 2),
        ("library hours", "The library has bookshop hours", ONCE),
        ("library hours", "LIBRARY library in Rome", TWICE / 2),
        ("library library", "library", ONCE),
        ("library", "bookshop", 0.0),
        ("library", "", 0.0),
        ("what is the", "what is the", 0.0),
        ("", "library", 0.0),
        ("?!", "?!", 0.0),
        ("护照", "我的护照", ONCE),
        ("护照在", "护照", ONCE / 2),
        ("护", "护", ONCE),
        ("متى تفتح المكتبة؟", "تَفْتَحُ مكتبة المدينة", ONCE),
        ("متى تفتح المكتبة؟", "للمكتبات", ONCE / 2),
        ("Wann öffnet die Bibliothek?", "wann die", 0.0),
        ("Wann öffnet die Bibliothek?", "Am Ufer liegt die neue Bibliothek.", ONCE / 2),
        ("护照 office", "the office for 护照 is in Seoul", ONCE),
        # A copy of the question says nothing, and counts in full beside what covers enough.
        ("When are library hours?", "When are library hours?", 0.0),
        ("When are library hours?", "When are library hours? Dogs bark.", 0.0),
        (
            "When are library hours?",
            "When are library hours? The library: at nine.",
            (TWICE + ONCE) / 2,
        ),
    ],
)
def test_coverage_is_as_worked_out_by_hand(
    lexical: LexicalScorer, question: str, passage: str, score: float
) -> None:
    assert lexical.score(question, [passage]).tolist() == [pytest.approx(score, abs=1e-15)]


def test_repeating_the_words_saturates_below_one(lexical: LexicalScorer) -> None:
    [score] = lexical.score("library", ["library " * 5000])
    assert 0.999 < score < 1.0


def test_nothing_gives_no_scores(lexical: LexicalScorer) -> None:
    assert lexical.score("q", []).shape == (0,)
    assert lexical.score_pairs([]).shape == (0,)


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=60)), max_size=5))
@settings(max_examples=50, deadline=None)
def test_pairs_and_single_scores_are_equal_and_in_range(pairs: list[tuple[str, str]]) -> None:
    lexical = LexicalScorer()
    together = lexical.score_pairs(pairs).tolist()
    assert together == [lexical.score(q, [p])[0] for q, p in pairs]
    assert all(0.0 <= score < 1.0 for score in together)
