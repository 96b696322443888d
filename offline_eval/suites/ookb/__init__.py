"""The out-of-knowledge-base suite: leave one out, and see what passes.

Source: "Know Or Not: a library for designing application-specific
out-of-knowledge base robustness".
"""

from __future__ import annotations

from ..registry import register
from ._measure import MEASURE
from ._scorers import compare_scorers
from ._scorers import folder_name as folder_name
from ._suite import OokbSuite

__all__ = [
    "MEASURE",
    "OokbSuite",
    "compare_scorers",
]

register(MEASURE)
register(OokbSuite)
