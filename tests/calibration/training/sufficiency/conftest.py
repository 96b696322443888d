"""Encoders that are slow to make are made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.calibration.training.sufficiency._encoder import TrainableEncoder
from knowgate.guard.engine import TokenEncoder
from knowgate.guard.signals.relevance import FusedScorer
from tests.support.tuned_folders import random_adapter, write_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter with random weights, and mixes for it; read only."""
    return write_folder(tmp_path_factory.mktemp("tuned") / "one")


@pytest.fixture(scope="session")
def fused(folder: Path) -> FusedScorer:
    """All features mixed."""
    return FusedScorer(folder, device="cpu")


@pytest.fixture(scope="session")
def trained(fused: FusedScorer) -> TokenEncoder:
    """The embedded model with the adapter."""
    return fused.encoders["trained"]


@pytest.fixture
def encoder() -> TrainableEncoder:
    """The same adapter, to train."""
    return random_adapter(1)
