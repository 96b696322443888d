"""Evaluation suites: each holds its cases, its way of answering, its metrics and its report.

`base` explains how to write one; running, resuming and reporting are done here for all.
"""

from __future__ import annotations

from .base import Suite
from .driver import read_suite_run, run_suite, write_report
from .parts import ModelChoice, SuiteSettings
from .registry import find_suite, register

__all__ = [
    "ModelChoice",
    "Suite",
    "SuiteSettings",
    "find_suite",
    "read_suite_run",
    "register",
    "run_suite",
    "write_report",
]
