"""Caches stay within their bytes, whatever they are given."""

from __future__ import annotations

import os
import threading
import tracemalloc
from sys import getsizeof

import numpy as np
import pytest

from knowgate.guard import matching
from knowgate.guard._byte_cache import ByteCache, content_key


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
