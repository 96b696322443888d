"""Abstention: does a reply give an answer, or does it decline to?

    reply ─► clauses ─► patterns (English, Chinese) ─► features ─► logistic model ─► probability

No language model is called. Add a rule by matching the `AbstentionRule` protocol;
add a language as a `Language` of patterns beside `_english.py` and `_chinese.py`.
"""

from __future__ import annotations

from ._citation import Citation, read_citation
from ._detector import FEATURE_NAMES, AbstentionDetector, AbstentionModel, AbstentionRule, features
from ._reading import read_reply
from ._rules import load_rule

__all__ = [
    "FEATURE_NAMES",
    "AbstentionDetector",
    "AbstentionModel",
    "AbstentionRule",
    "Citation",
    "features",
    "load_rule",
    "read_citation",
    "read_reply",
]
