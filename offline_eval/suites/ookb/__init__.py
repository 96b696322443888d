"""The out-of-knowledge-base suite: leave one out, and see what passes.

Source: "Know Or Not: a library for designing application-specific
out-of-knowledge base robustness".
"""

from __future__ import annotations

from ._instruments import Instruments, served_instruments
from ._measure import MEASURE, MeasureSettings
from ._preparing import Prepared, prepare
from ._replies_report import replies_report
from ._running import RepliesDone, estimate, judge_replies, run_replies
from ._settings import RepliesSettings
from ._signals_summary import replayed_decisions

__all__ = [
    "MEASURE",
    "Instruments",
    "MeasureSettings",
    "Prepared",
    "RepliesDone",
    "RepliesSettings",
    "estimate",
    "judge_replies",
    "prepare",
    "replayed_decisions",
    "replies_report",
    "run_replies",
    "served_instruments",
]
