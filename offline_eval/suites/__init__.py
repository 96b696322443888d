"""Evaluation suites: each holds its cases, its way of answering, its metrics and its report.

`base` explains how to write one; running, resuming and reporting are done here for all.
"""

from __future__ import annotations

from ._driver import plan_suite, read_suite_run, run_suite, write_report
from ._parts import (
    DryRun,
    ModelChoice,
    RunOptions,
    SuiteSettings,
    System,
    questions_tuned_on,
)
from ._registry import find_suite, register, suite_names
from .base import Suite, SuiteRun

__all__ = [
    "DryRun",
    "ModelChoice",
    "RunOptions",
    "Suite",
    "SuiteRun",
    "SuiteSettings",
    "System",
    "find_suite",
    "plan_suite",
    "questions_tuned_on",
    "read_suite_run",
    "register",
    "run_suite",
    "suite_names",
    "write_report",
]
