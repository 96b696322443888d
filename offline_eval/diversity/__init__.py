"""The diversity filter: which questions of a knowledge base are worth asking.

questions ─► duplicates ─► keywords ─► meaning ─► kept, and what was dropped and why
"""

from __future__ import annotations

from ._diverse import (
    Diverse,
    DiversitySettings,
    Dropped,
    DropReason,
    KeywordMethod,
    SemanticMethod,
    diverse_questions,
)
from ._duplicates import Duplicate, remove_duplicates
from ._farthest_first import farthest_first
from ._files import filter_questions_file
from ._keywords import Distinct, keyword_distinct, keyword_uniqueness
from ._original import original_keyword_scores, original_keyword_selection
from ._words import numbers_of, words_of

__all__ = [
    "Distinct",
    "Diverse",
    "DiversitySettings",
    "DropReason",
    "Dropped",
    "Duplicate",
    "KeywordMethod",
    "SemanticMethod",
    "diverse_questions",
    "farthest_first",
    "filter_questions_file",
    "keyword_distinct",
    "keyword_uniqueness",
    "numbers_of",
    "original_keyword_scores",
    "original_keyword_selection",
    "remove_duplicates",
    "words_of",
]
