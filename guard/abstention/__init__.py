"""Abstention: whether a reply gives an answer or abstains.

    reply ─► clauses ─► patterns (English, Chinese) ─► features ─► logistic model ─► probability

No language model is called. Add a rule by matching the `AbstentionRule` protocol;
add a language as a section of `guard/language/refusals.toml`.
"""

from __future__ import annotations

from .detector import AbstentionDetector
from .reading import Citation

__all__ = ["AbstentionDetector", "Citation"]
