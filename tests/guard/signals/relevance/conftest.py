"""A scorer over a folder with an adapter; slow to make."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowgate.guard.engine.encoder import TokenEncoder
from knowgate.guard.signals.relevance.sufficiency import SufficiencyScorer


@pytest.fixture(scope="session")
def scorer(folder: Path, trained: TokenEncoder) -> SufficiencyScorer:
    """A random adapter, and a mix in which every feature counts."""
    return SufficiencyScorer(folder, encoder=trained)
