"""A folder with an adapter, and the encoders over it; both are slow to make."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard.engine import TokenEncoder
from knowgate.guard.signals.relevance import FusedScorer
from knowgate.guard.signals.relevance._sufficiency import SufficiencyScorer
from tests.guard.signals.relevance.folders import write_folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter with random weights, and mixes for it; read only."""
    return write_folder(tmp_path_factory.mktemp("tuned") / "one")


@pytest.fixture(scope="session")
def base() -> TokenEncoder:
    """The embedded model."""
    return TokenEncoder(device="cpu")


@pytest.fixture(scope="session")
def trained(folder: Path) -> TokenEncoder:
    """The embedded model with the adapter."""
    return TokenEncoder(device="cpu", adapter=folder)


@pytest.fixture(scope="session")
def fused(folder: Path, base: TokenEncoder, trained: TokenEncoder) -> FusedScorer:
    """All features mixed."""
    return FusedScorer(folder, base_encoder=base, trained_encoder=trained)


@pytest.fixture(scope="session")
def sufficiency(folder: Path, trained: TokenEncoder) -> SufficiencyScorer:
    """The trained encoder's features mixed."""
    return SufficiencyScorer(folder, trained_encoder=trained)
