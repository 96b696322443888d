"""The diversity filter: which questions of a knowledge base are worth asking.

questions ─► duplicates ─► keywords ─► meaning ─► kept, and what was dropped and why
"""

from __future__ import annotations

from ._farthest_first import farthest_first
from ._filter import (
    Diverse,
    DiversitySettings,
    DropReason,
    KeywordMethod,
    SemanticMethod,
    filter_questions_file,
)
from ._tokens import numbers_of, words_of
from ._uniqueness import (
    keyword_distinct,
    keyword_uniqueness,
    original_keyword_scores,
    original_keyword_selection,
)

__all__ = [
    "Diverse",
    "DiversitySettings",
    "DropReason",
    "KeywordMethod",
    "SemanticMethod",
    "farthest_first",
    "filter_questions_file",
    "keyword_distinct",
    "keyword_uniqueness",
    "numbers_of",
    "original_keyword_scores",
    "original_keyword_selection",
    "words_of",
]
