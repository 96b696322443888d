"""The out-of-knowledge-base suite: leave one out, and see what passes.

Source: "Know Or Not: a library for designing application-specific
out-of-knowledge base robustness".
"""

from __future__ import annotations

from ._calibrate import calibrate_ookb
from ._measure import OokbSettings, run_ookb
from ._preparing import Comparison, Prepared, prepare
from ._replies_writing import replies_report
from ._running import RepliesDone, estimate, judge_replies, run_replies
from ._signals_plots import draw_plots
from ._signals_summary import measured_cases, summarise
from ._signals_view import report_view

__all__ = [
    "Comparison",
    "OokbSettings",
    "Prepared",
    "RepliesDone",
    "calibrate_ookb",
    "draw_plots",
    "estimate",
    "judge_replies",
    "measured_cases",
    "prepare",
    "replies_report",
    "report_view",
    "run_ookb",
    "run_replies",
    "summarise",
]
