"""The out-of-knowledge-base suite: leave one out, and see what passes.

Source: "Know Or Not: a library for designing application-specific
out-of-knowledge base robustness".
"""

from __future__ import annotations

from .._registry import register
from ._instruments import Instruments
from ._leaving_out import sizes_of_units
from ._measure import MEASURE
from ._replayed import replayed_decisions
from ._scorer_comparison import ScorerComparison
from ._scorers import compare_scorers
from ._suite import OokbSuite

__all__ = [
    "MEASURE",
    "Instruments",
    "OokbSuite",
    "ScorerComparison",
    "compare_scorers",
    "replayed_decisions",
    "sizes_of_units",
]

register(MEASURE)
register(OokbSuite)
