"""Cross-encoders: the numbers of sentence-transformers, in torch and in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard.engine import CrossEncoderScorer
from knowgate.guard.signals.relevance import load_scorer
from tools.attack.tiny_models import tiny_cross_encoder

# `tiny_cross_encoder` exported in float32.
EXPORTED = Path(__file__).parent / "data" / "exported_cross_encoder"
PAIRS = [
    ("when is the library open ?", "from nine to six ."),
    ("when is the library open ?", "a dog can swim " * 20),
    ("a dog " * 40, "is open " * 40),
    ("", "the library"),
    ("is open ?", ""),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_cross_encoder(tmp_path_factory.mktemp("models") / "cross_encoder")


@pytest.fixture(scope="module")
def scorer(folder: Path) -> CrossEncoderScorer:
    return CrossEncoderScorer(folder, device="cpu")


@pytest.fixture(scope="module")
def exported() -> CrossEncoderScorer:
    return CrossEncoderScorer(EXPORTED, device="cpu")


def test_scores_are_those_of_sentence_transformers(
    folder: Path, scorer: CrossEncoderScorer
) -> None:
    import torch

    library = pytest.importorskip("sentence_transformers")
    peer = library.CrossEncoder(str(folder), device="cpu")
    expected = peer.predict(PAIRS, activation_fn=torch.nn.Identity())
    assert scorer.score_pairs(PAIRS) == pytest.approx(expected, abs=1e-5)
    assert scorer.fingerprint.max_length == peer.max_seq_length == 64


def test_an_exported_one_gives_the_scores_of_torch(
    scorer: CrossEncoderScorer, exported: CrossEncoderScorer
) -> None:
    assert exported.score_pairs(PAIRS) == pytest.approx(scorer.score_pairs(PAIRS), abs=1e-5)
    mine, theirs = exported.fingerprint, scorer.fingerprint
    assert (mine.kind, mine.backend, mine.dtype) == ("cross_encoder", "onnxruntime", "float32")
    # Processors differ in the last digits of weights that are drawn at random.
    assert len(mine.weights_sha256 or "") == len(theirs.weights_sha256 or "") == 64
    assert mine.max_length == theirs.max_length


@pytest.mark.parametrize("name", ["scorer", "exported"])
def test_scores_do_not_depend_on_neighbours(name: str, request: pytest.FixtureRequest) -> None:
    scorer = request.getfixturevalue(name)
    together = scorer.score_pairs(PAIRS)
    alone = [float(scorer.score_pairs([pair])[0]) for pair in PAIRS]
    assert together == pytest.approx(alone, abs=1e-5)
    assert scorer.score(PAIRS[0][0], [PAIRS[0][1]]) == pytest.approx(together[:1], abs=1e-5)
    assert scorer.score_pairs([]).shape == (0,)


def test_folders_are_loaded_by_their_path(
    folder: Path, scorer: CrossEncoderScorer, exported: CrossEncoderScorer
) -> None:
    assert load_scorer(str(folder), device="cpu").fingerprint == scorer.fingerprint
    assert load_scorer(str(EXPORTED)).fingerprint == exported.fingerprint


def test_questions_that_the_vocabulary_lacks_are_not_supported(scorer: CrossEncoderScorer) -> None:
    assert scorer.supports("when is the library open ?")
    assert not scorer.supports("图书馆几点开门")
