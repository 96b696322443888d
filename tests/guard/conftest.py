"""Models that are slow to load are loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.signals.relevance import LexicalScorer
from tests.support.tuned_folders import write_folder


@pytest.fixture(scope="session")
def bi_encoder() -> BiEncoderScorer:
    """The embedded scorer on the CPU; without a cache, so that every call computes anew."""
    return BiEncoderScorer(device="cpu", cache_bytes=0)


@pytest.fixture(scope="session")
def lexical() -> LexicalScorer:
    """The lexical scorer."""
    return LexicalScorer()


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
