"""Support: does a reply rest on the passages that it was generated from?

    reply ─► sentences ─► facts, words ─► the passage sentence that carries each ─► support

Measured after generation, by rules; an entailment model of Hugging Face or a class of your own
(`EntailmentModel`) can be asked besides.
"""

from __future__ import annotations

from ._check import SupportCheck
from .contracts import SentenceSupport, Support

__all__ = [
    "SentenceSupport",
    "Support",
    "SupportCheck",
]
