"""Scorers over a folder with an adapter; slow to make."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard.engine import TokenEncoder
from knowgate.guard.signals.relevance import FusedScorer
from knowgate.guard.signals.relevance._sufficiency import SufficiencyScorer


@pytest.fixture(scope="session")
def fused(folder: Path, base: TokenEncoder, trained: TokenEncoder) -> FusedScorer:
    """All features mixed."""
    return FusedScorer(folder, base_encoder=base, trained_encoder=trained)


@pytest.fixture(scope="session")
def sufficiency(folder: Path, trained: TokenEncoder) -> SufficiencyScorer:
    """The trained encoder's features mixed."""
    return SufficiencyScorer(folder, trained_encoder=trained)
