"""The diversity filter: which questions of a knowledge base are worth asking.

questions ─► duplicates ─► keywords ─► meaning ─► kept, and what was dropped and why
"""

from __future__ import annotations

from ._filter import DiversitySettings, KeywordMethod, SemanticMethod, filter_questions_file
from ._uniqueness import numbers_of, words_of

__all__ = [
    "DiversitySettings",
    "KeywordMethod",
    "SemanticMethod",
    "filter_questions_file",
    "numbers_of",
    "words_of",
]
