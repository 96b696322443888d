"""Lexical coverage by hand (k1 = 0.3, b = 0.75), and caches that stay within their bytes."""

from __future__ import annotations

import os
import threading
import tracemalloc
from sys import getsizeof

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.guard import matching
from knowgate.guard._byte_cache import ByteCache, content_key
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


def test_values_together_stay_within_the_bytes_and_the_oldest_go_first() -> None:
    cache: ByteCache[str, bytes] = ByteCache(10_000, len)

    for index in range(50):
        cache.keep({f"key {index}": b"x" * 1_000})
        assert cache.found(["key 0"])  # used each time, so it stays
        assert cache.bytes_kept <= 10_000

    assert 5 <= len(cache) <= 9
    assert cache.found(["key 1"]) == {}
    assert cache.found(["key 49", "key 0"]) == {"key 49": b"x" * 1_000, "key 0": b"x" * 1_000}


def test_what_is_larger_than_the_cache_is_not_kept_and_drops_nothing() -> None:
    cache: ByteCache[str, bytes] = ByteCache(5_000, len)
    cache.keep({"small": b"x"})

    cache.keep({"large": b"x" * 5_000})

    assert cache.found(["small", "large"]) == {"small": b"x"}


def test_many_small_values_take_no_more_memory_than_the_bytes() -> None:
    cache: ByteCache[bytes, np.ndarray] = ByteCache(500_000, getsizeof)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()

    for index in range(2_000):
        cache.keep({content_key(str(index)): np.zeros(8)})

    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before <= 500_000 * 1.1
    assert 500 < len(cache) < 2_000


def test_threads_leave_the_count_of_bytes_right() -> None:
    cache: ByteCache[int, bytes] = ByteCache(3_000, len)

    def work(start: int) -> None:
        for index in range(start, start + 300):
            cache.keep({index % 40: b"x" * (index % 40)})
            cache.found([index % 40, (index + 7) % 40])

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    kept = cache.found(range(40))
    assert len(kept) == len(cache)
    fresh: ByteCache[int, bytes] = ByteCache(100_000, len)
    fresh.keep(kept)
    assert cache.bytes_kept == fresh.bytes_kept <= 3_000


def test_keys_tell_texts_and_kinds_apart() -> None:
    assert (
        len({content_key("a"), content_key("b"), content_key("a", 1), content_key("\ud800")}) == 4
    )
    assert len(content_key("x" * 1_000_000)) == 17


def test_long_answers_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    cache: ByteCache[str, str] = ByteCache(50_000, getsizeof)
    monkeypatch.setattr(matching, "_CANONICAL", cache)

    found = [matching.canonical_answer(f"{index} " + "Word " * 500) for index in range(30)]

    assert found[7] == "7" + " word" * 500 == matching.canonical_answer("7 " + "Word " * 500)
    assert 40_000 < cache.bytes_kept <= 50_000


def test_a_forked_process_can_use_a_cache_that_another_thread_was_changing() -> None:
    cache: ByteCache[str, bytes] = ByteCache(10_000, len)
    cache.keep({"before": b"x"})

    with cache._lock:  # as another thread would hold it
        child = os.fork()
        if child == 0:
            cache.keep({"after": b"y"})
            os._exit(0 if cache.found(["before", "after"]) == {"after": b"y"} else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.found(["before"]) == {"before": b"x"}
