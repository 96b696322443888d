"""Relevance: do the retrieved passages suffice to answer the question?

Add a scorer by matching the `RelevanceScorer` protocol and calling
`register_scorer("my_scorer", MyScorer)`; every command then knows it by name.
"""

from __future__ import annotations

from ..._fingerprint import default_aggregator
from ...policy import default_calibrator
from ._cascade import CascadeScorer
from ._export import export_scorer
from ._judge import SufficiencyJudge
from ._late_interaction import best_cosines, token_weights, word_piece_idf
from ._lexical import LexicalScorer
from ._match_model import EchoMix, MatchModel
from ._passages import index_passages
from ._registry import (
    DEFAULT_SCORER,
    PRESETS,
    load_scorer,
    register_scorer,
    scorer_name,
    scorer_names,
)
from ._sufficiency import BUNDLED_FOLDER, SufficiencyScorer

__all__ = [
    "BUNDLED_FOLDER",
    "DEFAULT_SCORER",
    "PRESETS",
    "CascadeScorer",
    "EchoMix",
    "LexicalScorer",
    "MatchModel",
    "SufficiencyJudge",
    "SufficiencyScorer",
    "best_cosines",
    "default_aggregator",
    "default_calibrator",
    "export_scorer",
    "index_passages",
    "load_scorer",
    "register_scorer",
    "scorer_name",
    "scorer_names",
    "token_weights",
    "word_piece_idf",
]
