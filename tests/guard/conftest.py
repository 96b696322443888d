"""Models that are slow to load are loaded once."""

from __future__ import annotations

import pytest

from knowgate.guard.engine import BiEncoderScorer
from knowgate.guard.signals.relevance import LexicalScorer


@pytest.fixture(scope="session")
def bi_encoder() -> BiEncoderScorer:
    """The embedded scorer on the CPU; without a cache, so that every call computes anew."""
    return BiEncoderScorer(device="cpu", cache_size=0)


@pytest.fixture(scope="session")
def lexical() -> LexicalScorer:
    """The lexical scorer."""
    return LexicalScorer()
