"""Abstention: does a reply give an answer, or does it decline to?

    reply ─► clauses ─► patterns (English, Chinese) ─► features ─► logistic model ─► probability

No language model is called. Add a rule by matching the `AbstentionRule` protocol;
add a language as a `Language` of patterns beside `_english.py` and `_chinese.py`.
"""

from __future__ import annotations

from ._citation import Citation, read_citation
from ._detector import AbstentionDetector
from ._features import FEATURE_NAMES
from ._model import AbstentionModel
from ._rules import PatternRule, load_rule, rule_names
from ._verdict import AbstentionRule, AbstentionVerdict

__all__ = [
    "FEATURE_NAMES",
    "AbstentionDetector",
    "AbstentionModel",
    "AbstentionRule",
    "AbstentionVerdict",
    "Citation",
    "PatternRule",
    "load_rule",
    "read_citation",
    "rule_names",
]
