"""Gates: what a report must not say if a release is to go out.

    report.json + expressions ─► check_gates ─► one result each; exit code 1 where one failed

An expression states what is *not* to be, as after `--fail-if`:

    abstention_rate<0.9                         the rate's value
    abstention_rate.low<85%                     the lower end of its interval
    systems[gpt-4o·hyde].replies.tier_3>5       a part of a list, by name or by position
    methods[lm_uniknow@abstention=0.5].rely<0.6
"""

from __future__ import annotations

from ._gates import GateResult, check_gates, parse_gate
from ._numbers import (
    REPORT_SCHEMA_VERSION,
    SPACE,
    counted,
    decimal,
    exact_percent,
    flat,
    percent,
    questions,
)
from ._plots import (
    AMBER,
    BLUE,
    GREY,
    INK,
    PAPER,
    PURPLE,
    SKY,
    VERMILION,
    Plot,
    draw_svg,
    name_points,
)
from ._rendering import (
    DEFAULT_FORMATS,
    FORMATS,
    Check,
    Gates,
    ReportPaths,
    SuiteReport,
    gate_checks,
    junit_xml,
    one_line,
    render_html,
    render_markdown,
    shortened,
)
from ._resampling import Floats, QuestionResamples, difference_interval, share_interval
from ._tables import (
    DASH,
    MINUS,
    NOTHING,
    Cell,
    Line,
    Table,
    cells_of,
    interval_under,
    signed,
    table_of,
)

__all__ = [
    "AMBER",
    "BLUE",
    "DASH",
    "DEFAULT_FORMATS",
    "FORMATS",
    "GREY",
    "INK",
    "MINUS",
    "NOTHING",
    "PAPER",
    "PURPLE",
    "REPORT_SCHEMA_VERSION",
    "SKY",
    "SPACE",
    "VERMILION",
    "Cell",
    "Check",
    "Floats",
    "GateResult",
    "Gates",
    "Line",
    "Plot",
    "QuestionResamples",
    "ReportPaths",
    "SuiteReport",
    "Table",
    "cells_of",
    "check_gates",
    "counted",
    "decimal",
    "difference_interval",
    "draw_svg",
    "exact_percent",
    "flat",
    "gate_checks",
    "interval_under",
    "junit_xml",
    "name_points",
    "one_line",
    "parse_gate",
    "percent",
    "questions",
    "render_html",
    "render_markdown",
    "share_interval",
    "shortened",
    "signed",
    "table_of",
]
