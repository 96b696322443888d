"""Encoders that are slow to make are made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.calibration.training.encoder import TrainableEncoder
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer
from tests.support.tuned_folders import random_adapter, write_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter with random weights, and a mix for it; read only."""
    return write_folder(tmp_path_factory.mktemp("tuned") / "one")


@pytest.fixture(scope="session")
def scorer(folder: Path) -> SufficiencyScorer:
    """A random adapter, and a mix in which every feature counts."""
    return SufficiencyScorer(folder, device="cpu")


@pytest.fixture(scope="session")
def trained(scorer: SufficiencyScorer) -> TokenEncoder:
    """The embedded model with the adapter."""
    return scorer.encoder


@pytest.fixture
def encoder() -> TrainableEncoder:
    """The same adapter, to train."""
    return random_adapter(1)
