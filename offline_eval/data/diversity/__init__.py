"""The diversity filter: which questions of a knowledge base are worth asking.

questions ─► duplicates ─► keywords ─► meaning ─► kept, and what was dropped and why
"""

from __future__ import annotations

from ._filter import DiversitySettings, KeywordMethod, SemanticMethod, filter_questions_file
from ._shared_words import SHARED_BY_PEOPLE, content_words, mean_shared_words, shared_words
from ._tokens import numbers_of, words_of

__all__ = [
    "SHARED_BY_PEOPLE",
    "DiversitySettings",
    "KeywordMethod",
    "SemanticMethod",
    "content_words",
    "filter_questions_file",
    "mean_shared_words",
    "numbers_of",
    "shared_words",
    "words_of",
]
