"""The out-of-knowledge-base suite: leave one out, and see what passes.

Source: "Know Or Not: a library for designing application-specific
out-of-knowledge base robustness".
"""

from __future__ import annotations

from ._measure import MEASURE
from ._suite import OokbSuite
from .scorer_comparison import compare_scorers
from .scorer_comparison import folder_name as folder_name

__all__ = [
    "MEASURE",
    "OokbSuite",
    "compare_scorers",
]
