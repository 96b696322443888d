"""Folders as `knowgate tune relevance` writes them, made without any training."""

from __future__ import annotations

from pathlib import Path

import torch

from knowgate.calibration.training.encoder import TrainableEncoder
from knowgate.guard.signals.relevance.match_model import FEATURES, EchoMix, FeatureMix, MatchModel


def random_adapter(seed: int, *, rank: int = 2) -> TrainableEncoder:
    """An encoder whose adapter changes something; a fresh one is the base model's."""
    encoder = TrainableEncoder(rank=rank, alpha=2 * rank, seed=seed)
    with torch.no_grad():
        for weights in encoder.parameters():
            weights.normal_(0.0, 0.05, generator=torch.Generator().manual_seed(seed))
    return encoder


def some_mix(features: tuple[str, ...], *, bias: float = -3.0) -> MatchModel:
    """Different weights for every feature, so that none can be taken for another."""
    count = range(1, len(features) + 1)
    return MatchModel(
        features=features,
        length_penalty=0.06,
        single=FeatureMix(bias=bias, top=tuple(0.5 + 0.25 * i for i in count)),
        several=FeatureMix(
            bias=bias,
            top=tuple(0.5 + 0.125 * i for i in count),
            margin=tuple(0.375 * i for i in count),
            gain=tuple(1.0 + 0.5 * i for i in count),
        ),
        told=EchoMix(bias=-1.0, weights=(0.5, 0.25, 0.125, 1.0, -0.125, 0.5, 0.25, 0.125)),
    )


def write_folder(folder: Path, *, seed: int = 1) -> Path:
    """An adapter with a mix."""
    folder.mkdir(parents=True, exist_ok=True)
    random_adapter(seed).save(folder)
    some_mix(FEATURES).save(folder / "sufficiency.json")
    return folder
