"""Relevance: do the retrieved passages suffice to answer the question?

Add a scorer by matching the `RelevanceScorer` protocol and calling
`register_scorer("my_scorer", MyScorer)`; every command then knows it by name.
"""

from __future__ import annotations

from ._bi_encoder import BiEncoderScorer
from ._embedded import EMBEDDED_SHA256, embedded_model_path
from ._lexical import LexicalScorer
from ._registry import default_calibrator, load_scorer, register_scorer, scorer_names

__all__ = [
    "EMBEDDED_SHA256",
    "BiEncoderScorer",
    "LexicalScorer",
    "default_calibrator",
    "embedded_model_path",
    "load_scorer",
    "register_scorer",
    "scorer_names",
]
