"""Models that the relevance signals share: loading, tokenising, computing."""

from __future__ import annotations

from ._bi_encoder import BiEncoderScorer
from ._cross_encoder import CrossEncoderScorer

__all__ = [
    "BiEncoderScorer",
    "CrossEncoderScorer",
]
