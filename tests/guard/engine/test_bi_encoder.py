"""The embedded bi-encoder: checked weights, clear refusals, a bounded cache."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

from knowgate.guard import FingerprintMismatchError, Policy
from knowgate.guard._byte_cache import content_key
from knowgate.guard.engine import BiEncoderScorer, embedded
from knowgate.guard.errors import ModelFolderError
from knowgate.guard.files import file_sha256
from knowgate.guard.model_files import EMBEDDED_SHA256
from knowgate.guard.signals.relevance import load_scorer


@pytest.mark.parametrize("name", ["encoder.safetensors", "tokenizer.json", "encoder.onnx"])
@pytest.mark.parametrize("damage", ["changed", "lost"])
def test_bundled_files_that_were_tampered_with_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: str
) -> None:
    copy = Path(shutil.copytree(embedded.DATA, tmp_path / "data"))
    if damage == "lost":
        (copy / name).unlink()
    else:
        (copy / name).write_bytes((copy / name).read_bytes() + b" ")
    monkeypatch.setattr(embedded, "DATA", copy)
    with pytest.raises(ModelFolderError, match=rf"{name}: the sha256 is .* — reinstall knowgate"):
        BiEncoderScorer()


@pytest.mark.slow
def test_what_is_saved_gives_sentence_transformers_the_same_embeddings(
    bi_encoder: BiEncoderScorer, tmp_path: Path
) -> None:
    import sentence_transformers

    embedded.save_embedded(tmp_path / "model")
    peer = sentence_transformers.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    texts = ["When is the library open?", "", "Dogs must be registered. " * 90, "图书馆九点开门。"]
    expected = peer.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    assert bi_encoder.embed(texts) == pytest.approx(expected, abs=1e-5)


def test_int8_ranks_as_float32_and_is_bound_to_its_own_policy(bi_encoder: BiEncoderScorer) -> None:
    whole = load_scorer("bi_encoder,device=cpu,dtype=int8")
    texts = ["The library is open from nine to six.", "Dogs must be registered.", ""]
    scores = whole.score("When is the library open?", texts)
    assert scores == pytest.approx(bi_encoder.score("When is the library open?", texts), abs=0.1)
    assert scores.argmax() == 0
    policy = Policy.for_scorer(whole, threshold=0.5)
    assert load_scorer(policy.scorer, device="cpu").fingerprint == policy.scorer
    with pytest.raises(FingerprintMismatchError, match=r"dtype: 'int8' .*knowgate calibrate"):
        policy.require_scorer(bi_encoder.fingerprint)


def test_the_fingerprint_names_weights_precision_and_length(bi_encoder: BiEncoderScorer) -> None:
    fingerprint = bi_encoder.fingerprint
    assert fingerprint.weights_sha256 == EMBEDDED_SHA256
    assert (fingerprint.kind, fingerprint.dtype, fingerprint.max_length) == (
        "bi_encoder",
        "float32",
        256,
    )
    assert fingerprint.tokenizer_sha256 == file_sha256(embedded.DATA / "tokenizer.json")


def test_scores_are_cosines_that_put_the_fitting_passage_first(bi_encoder: BiEncoderScorer) -> None:
    scores = bi_encoder.score(
        "When is the library open?",
        ["The library is open from nine to six.", "Dogs must be registered.", ""],
    )
    assert scores.dtype == np.float64
    assert scores.shape == (3,)
    assert np.abs(scores).max() <= 1.0 + 1e-6
    assert scores.argmax() == 0
    same = "the same text"
    assert bi_encoder.score(same, [same])[0] == pytest.approx(1.0, abs=1e-5)


def test_a_score_does_not_depend_on_its_neighbours(bi_encoder: BiEncoderScorer) -> None:
    passages = ["short", "a much longer passage " * 30, "middle " * 9]
    together = bi_encoder.score("which?", passages)
    alone = [bi_encoder.score("which?", [passage])[0] for passage in passages]
    assert together == pytest.approx(alone, abs=1e-5)
    assert bi_encoder.score("which?", passages[::-1]) == pytest.approx(alone[::-1], abs=1e-5)


def test_the_cache_keeps_the_last_used_texts_only() -> None:
    scorer = BiEncoderScorer(device="cpu", cache_bytes=4_000)  # two embeddings
    first = scorer.embed(["a", "b", "c", "a"])
    assert len(scorer._cache) == 2
    scorer.embed(["b"])
    scorer.embed(["d"])
    kept = scorer._cache.found([*map(content_key, "abcd")])
    assert list(kept) == [content_key("b"), content_key("d")]  # b was used after c
    assert np.array_equal(kept[content_key("b")], first[1])
    # A row of a larger array would keep all of it in memory.
    assert all(embedding.base is None for embedding in kept.values())
    assert np.array_equal(scorer.embed(["a"])[0], first[0])
    assert np.array_equal(first[0], first[3])


@pytest.mark.slow
def test_many_threads_get_the_scores_that_one_gets(bi_encoder: BiEncoderScorer) -> None:
    passages = [f"passage {i} " * (i + 1) for i in range(6)]
    expected = bi_encoder.score("q", passages).tolist()
    found: list[list[float]] = []
    threads = [
        threading.Thread(target=lambda: found.append(bi_encoder.score("q", passages).tolist()))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [expected] * 6
