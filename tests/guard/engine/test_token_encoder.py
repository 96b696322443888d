"""One pass per text: the bi-encoder's embedding, every token's vector, whole long texts."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowgate.guard import Fingerprint
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.engine._tokenizing import piece_ids
from knowgate.guard.engine.backends import run_rows
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.engine.passage_store import EncodedText
from knowgate.guard.model_files import EMBEDDED_SHA256

LONG = "The reading room on floor 3 opens at nine; fees are 12.50 euros. " * 60
TEXTS = ["short", LONG, "a middling passage " * 9, "", "图书馆 naïve \ud800 \x00 🙂"]


@pytest.fixture(scope="module")
def encoder() -> TokenEncoder:
    """Without a cache, so that every call computes anew."""
    return TokenEncoder(device="cpu", cache_bytes=0)


def same(first: EncodedText, second: EncodedText) -> bool:
    return (
        np.array_equal(first.ids, second.ids)
        and np.allclose(first.vectors, second.vectors, rtol=0, atol=1e-5)
        and np.allclose(first.embedding, second.embedding, rtol=0, atol=1e-5)
    )


def all_same(first: list[list[EncodedText]], second: list[list[EncodedText]]) -> bool:
    pairs = zip(first, second, strict=True)
    return all(same(a, b) for x, y in pairs for a, b in zip(x, y, strict=True))


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(text=st.text(max_size=400))
@example(text="[CLS] literal [SEP] marks")
@example(text="a\x1cb\u200bc")
@example(text="x" * 10_500)
@example(text=("y" * 300 + " \x1c ") * 60)
@example(text=LONG * 4)
def test_the_embedding_is_the_bi_encoders(
    encoder: TokenEncoder, bi_encoder: BiEncoderScorer, text: str
) -> None:
    expected = bi_encoder.embed([text])[0]
    assert encoder.encode([text])[0][0].embedding == pytest.approx(expected, abs=1e-5)
    assert encoder.encode_first([text])[0].embedding == pytest.approx(expected, abs=1e-5)


def test_the_embedding_is_the_normalised_mean_of_all_token_vectors(encoder: TokenEncoder) -> None:
    [found] = encoder.encode_first(["When does the library open?"])
    hidden, _ = run_rows(encoder.loaded.backend, [found.ids.tolist()])[0]
    lengths = np.linalg.norm(hidden, axis=1, keepdims=True)
    assert found.vectors == pytest.approx(hidden / lengths, abs=1e-5)
    mean = hidden.mean(axis=0)
    assert found.embedding == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)
    assert np.linalg.norm(found.embedding) == pytest.approx(1.0, abs=1e-5)


def test_shapes_and_types_are_as_promised_and_arrays_refuse_writing(encoder: TokenEncoder) -> None:
    [found] = encoder.encode_first(["When does it open?"])
    assert (str(found.ids.dtype), found.ids.shape) == ("int32", (7,))
    assert (str(found.vectors.dtype), found.vectors.shape) == ("float32", (7, 384))
    assert (str(found.embedding.dtype), found.embedding.shape) == ("float32", (384,))
    assert found.ids[[0, -1]].tolist() == [101, 102]
    for array in (found.ids, found.vectors, found.embedding):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(chosen=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5))
def test_what_a_text_gives_does_not_depend_on_its_neighbours(
    encoder: TokenEncoder, chosen: list[str]
) -> None:
    together = encoder.encode(chosen, max_windows=2)
    alone = [encoder.encode([text], max_windows=2)[0] for text in chosen]
    assert all_same(together, alone)


@settings(max_examples=15, deadline=None)
@given(pieces=st.integers(0, 1200))
@example(pieces=254)
@example(pieces=255)
@example(pieces=446)
@example(pieces=447)
@example(pieces=5000)
def test_windows_overlap_and_leave_nothing_out_up_to_the_last(
    encoder: TokenEncoder, pieces: int
) -> None:
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    windows = encoder._windows(" ".join(words[i % 7] for i in range(pieces)), 16)
    bodies = [window[1:-1] for window in windows]
    assert len(windows) <= 16
    assert all(len(window) <= 256 for window in windows)
    joined = bodies[0]
    for before, after in pairwise(bodies):
        assert before[192:] == after[:62]
        joined = joined + after[62:]
    assert len(joined) == min(pieces, 254 + 15 * 192)


def test_only_the_first_window_of_a_question_is_read(encoder: TokenEncoder) -> None:
    whole = encoder.encode([LONG])[0]
    assert len(whole) > 1
    assert same(encoder.encode_first([LONG])[0], whole[0])


def test_the_cache_keeps_the_last_used_texts_within_its_bytes() -> None:
    # Room for three texts of four word pieces each.
    encoder = TokenEncoder(device="cpu", cache_bytes=27_000)
    first = encoder.encode(["one two", "three four", "five six"])  # of four word pieces each
    again = encoder.encode(["one two"])
    assert again[0] is first[0]
    encoder.encode(["seven eight"])  # "three four" has to go
    assert encoder.encode(["one two"])[0] is first[0]
    renewed = encoder.encode(["three four"])
    assert renewed[0] is not first[1]
    assert all_same(renewed, [first[1]])
    assert encoder._cache.bytes_kept <= 27_000
    assert len(encoder._cache) == 3


def test_a_text_larger_than_the_cache_is_encoded_and_not_kept() -> None:
    encoder = TokenEncoder(device="cpu", cache_bytes=3_000)
    encoder.encode(["one two"])
    assert len(encoder._cache) == encoder._cache.bytes_kept == 0


def test_many_threads_get_what_one_gets() -> None:
    encoder = TokenEncoder(device="cpu", cache_bytes=90_000)
    texts = [f"passage {i} " * (i + 1) for i in range(6)]
    expected = encoder.encode(texts)
    found: list[list[list[EncodedText]]] = []
    threads = [
        threading.Thread(target=lambda: found.append(encoder.encode(texts))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 6
    assert all(all_same(one, expected) for one in found)
    assert 0 < encoder._cache.bytes_kept <= 90_000


def test_fingerprints_name_weights_windows_and_settings(encoder: TokenEncoder) -> None:
    found = encoder.fingerprint("late_interaction", extra=1)
    assert isinstance(found, Fingerprint)
    assert (found.kind, found.weights_sha256) == ("late_interaction", EMBEDDED_SHA256)
    assert (found.max_length, found.dtype) == (256, "float32")
    assert found.settings == {"max_windows": 16, "stride": 192, "extra": 1}


@pytest.mark.parametrize(
    "text",
    ["the library opens at nine. " * 200, "我的护照在哪里" * 400, "x" * 4000, "é\u0301 \n" * 900],
    ids=range(4),
)
def test_a_long_text_has_the_same_pieces_without_stopping_other_threads(
    encoder: TokenEncoder, text: str
) -> None:
    tokenizer = encoder._tokenizer
    used: list[str] = []

    class Recorded:
        def __getattr__(self, name: str) -> Any:
            used.append(name)
            return getattr(tokenizer, name)

    expected = tokenizer.encode(text, add_special_tokens=False).ids
    assert piece_ids(Recorded(), text) == expected
    piece_ids(Recorded(), text[:100])
    assert used == ["encode_batch_fast", "encode"]
