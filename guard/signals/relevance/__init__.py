"""Relevance: do the retrieved passages suffice to answer the question?

Add a scorer by matching the `RelevanceScorer` protocol and calling
`register_scorer("my_scorer", MyScorer)`: `load_scorer` and `Guard.load` of this process then
know it by name, if that is also the `kind` of its fingerprint. Commands take
`--scorer python:module:MyScorer`, or the name in an entry point of an installed package, of
the group `knowgate.scorers`.
"""

from __future__ import annotations

from ._combined import CascadeScorer
from ._folders import export_scorer, index_passages
from ._judge import SufficiencyJudge
from ._without_model import LexicalScorer
from .registry import load_scorer, register_scorer

__all__ = [
    "CascadeScorer",
    "LexicalScorer",
    "SufficiencyJudge",
    "export_scorer",
    "index_passages",
    "load_scorer",
    "register_scorer",
]
