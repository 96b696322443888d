"""A damaged model folder is one line, at once and in little memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from knowgate.guard.errors import ModelFolderError
from tools.attack import damaged_models
from tools.attack.tiny_models import tiny_cross_encoder, tiny_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _loaded(tiny_encoder(tmp_path_factory.mktemp("encoder") / "whole"))


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _loaded(tiny_cross_encoder(tmp_path_factory.mktemp("cross") / "whole"))


def _loaded(folder: Path) -> Path:
    damaged_models.score(folder)  # libraries are loaded once, before processes are forked
    return folder


@pytest.mark.parametrize("name", sorted(damaged_models.WEIGHTS))
def test_weights_that_are_not_whole_are_named(encoder: Path, name: str) -> None:
    folder = damaged_models.damaged(encoder, damaged_models.WEIGHTS[name])
    with pytest.raises(ModelFolderError, match=r"model\.safetensors"):
        damaged_models.score(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_damaged_sizes_tokenizers_and_layers_are_one_line(
    cross_encoder: Path, encoder: Path
) -> None:
    fields = damaged_models.CONFIGS | damaged_models.TOKENIZERS
    assert damaged_models.disorderly(damaged_models.score, cross_encoder, fields) == []
    assert damaged_models.disorderly(damaged_models.score, encoder, damaged_models.PARTS) == []


def test_weights_of_a_model_with_fewer_layers_are_not_filled_at_random(
    cross_encoder: Path,
) -> None:
    folder = damaged_models.damaged(
        cross_encoder, damaged_models.CONFIGS["num_hidden_layers = 1000000000"]
    )
    with pytest.raises(ModelFolderError, match="num_hidden_layers is 1000000000"):
        damaged_models.score(folder)
    two = damaged_models.damaged(cross_encoder, damaged_models.two_layers)
    with pytest.raises(ModelFolderError, match="the weights lack 16 tensors"):
        damaged_models.score(two)
