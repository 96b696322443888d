"""Models that the relevance signals share: loading, tokenising, computing."""

from __future__ import annotations

from ._scorers import BiEncoderScorer, CrossEncoderScorer

__all__ = ["BiEncoderScorer", "CrossEncoderScorer"]
