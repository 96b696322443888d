"""The trainable encoder: where it starts, what it saves, and that training moves it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from knowgate.calibration.training.cases import TopicBatches
from knowgate.calibration.training.encoder import TrainableEncoder
from knowgate.calibration.training.sufficiency import train_on
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.signals.relevance.late_interaction import word_piece_idf
from tests.calibration.training.sufficiency.knowledge import hash_embedding, made_up_questions
from tools.sufficiency.train import embeddings

TEXTS = ["When does the library open?", "No.", "", "A ferry ticket is 12 euros. " * 80]


@pytest.fixture(scope="module")
def idf(trained: TokenEncoder) -> NDArray[np.float32]:
    found = word_piece_idf(trained)
    assert found is not None
    return found


def _batches(seed: int = 0) -> TopicBatches:
    return TopicBatches(
        made_up_questions(), hash_embedding, seed=seed, batch_questions=6, batch_passages=8
    )


class _Losses:
    """Keeps the losses of a training, and never ends it."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def __call__(self, _step: int, loss: float) -> bool:
        self.seen.append(loss)
        return False


@pytest.mark.slow
def test_a_fresh_adapter_changes_nothing_and_is_all_that_is_trained() -> None:
    encoder = TrainableEncoder(rank=2, alpha=4)
    counts = sum(p.numel() for p in encoder.parameters())
    # Per layer: query, key, value and output of 384; 384 to 1536 and back; rank 2.
    assert counts == 6 * 2 * (4 * (384 + 384) + 2 * (384 + 1536))
    assert all(p.dtype == torch.float32 for p in encoder.parameters())
    base = TokenEncoder(device="cpu").encode_first(TEXTS[:3])
    expected = np.stack([text.embedding for text in base])
    assert embeddings(encoder, TEXTS[:3]) == pytest.approx(expected, abs=0.02)


@pytest.mark.slow
def test_a_saved_adapter_is_half_precision_names_no_place_and_goes_on_where_it_was(
    encoder: TrainableEncoder, folder: Path
) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
        "sufficiency.json",
    ]
    config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    assert config["base_model_name_or_path"] == "sentence-transformers/all-MiniLM-L6-v2"
    weights = load_file(folder / "adapter_model.safetensors")
    assert {t.dtype for t in weights.values()} == {torch.float16}
    modes = {path.stat().st_mode for path in folder.iterdir()}
    assert len(modes) == 1  # whoever may read one may read all
    again = TrainableEncoder(folder)
    for one, two in zip(encoder.parameters(), again.parameters(), strict=True):
        assert torch.allclose(one, two, atol=1e-3)
    assert embeddings(again, TEXTS) == pytest.approx(embeddings(encoder, TEXTS), abs=0.01)


def test_loading_and_saving_changes_no_weight_and_says_and_asks_nothing(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sockets are closed to tests; a question to the hub would come back as a warning.
    monkeypatch.delenv("HF_HUB_OFFLINE")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TrainableEncoder(folder).save(tmp_path)
    assert capfd.readouterr() == ("", "")
    name = "adapter_model.safetensors"
    first, second = load_file(folder / name), load_file(tmp_path / name)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_training_moves_the_adapter_alike_each_time(folder: Path, idf: NDArray[np.float32]) -> None:
    one, again = TrainableEncoder(folder), TrainableEncoder(folder)
    before = [weights.detach().clone() for weights in one.parameters()]
    first, second = _Losses(), _Losses()
    assert train_on(one, _batches(), idf, steps=2, warm_up=1, on_step=first) == 2
    assert train_on(again, _batches(), idf, steps=2, warm_up=1, on_step=second) == 2

    assert first.seen == second.seen
    assert np.isfinite(first.seen).all()
    moved = one.parameters()
    assert all(torch.equal(a, b) for a, b in zip(moved, again.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(moved, before, strict=True))


@pytest.mark.slow
def test_a_few_steps_lower_the_loss_on_what_is_trained_on(
    folder: Path, idf: NDArray[np.float32]
) -> None:
    losses = _Losses()
    train_on(
        TrainableEncoder(folder),
        _batches(),
        idf,
        steps=8,
        rate=2e-3,
        warm_up=1,
        on_step=losses,
    )
    assert sum(losses.seen[-3:]) < sum(losses.seen[:3])
