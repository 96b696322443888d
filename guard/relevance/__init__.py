"""Relevance: do the retrieved passages suffice to answer the question?

Add a scorer by matching the `RelevanceScorer` protocol and calling
`register_scorer("my_scorer", MyScorer)`; every command then knows it by name.
"""

from __future__ import annotations

from ._bi_encoder import BiEncoderScorer
from ._embedded import EMBEDDED_SHA256, embedded_model_path
from ._late_interaction import LateInteractionScorer, word_piece_idf
from ._lexical import LexicalScorer
from ._match_model import FEATURES, MatchModel, SeveralMix, SingleMix, set_features
from ._registry import (
    DEFAULT_SCORER,
    default_aggregator,
    default_calibrator,
    load_scorer,
    register_scorer,
    scorer_names,
)
from ._sufficiency import BUNDLED_FOLDER, FusedScorer, SufficiencyScorer
from ._token_encoder import EncodedText, TokenEncoder

__all__ = [
    "BUNDLED_FOLDER",
    "DEFAULT_SCORER",
    "EMBEDDED_SHA256",
    "FEATURES",
    "BiEncoderScorer",
    "EncodedText",
    "FusedScorer",
    "LateInteractionScorer",
    "LexicalScorer",
    "MatchModel",
    "SeveralMix",
    "SingleMix",
    "SufficiencyScorer",
    "TokenEncoder",
    "default_aggregator",
    "default_calibrator",
    "embedded_model_path",
    "load_scorer",
    "register_scorer",
    "scorer_names",
    "set_features",
    "word_piece_idf",
]
