"""The out-of-knowledge-base suite: leave one out, and see what passes.

Source: "Know Or Not: a library for designing application-specific
out-of-knowledge base robustness".
"""

from __future__ import annotations

from ._calibrate import OokbCalibrated, calibrate_ookb
from ._cases import Case, CaseKind, build_cases
from ._reading import (
    OokbCalibration,
    OokbQuestion,
    OokbRow,
    OokbRun,
    RowError,
    read_ookb_run,
)
from ._retrieval import BasicRag
from ._run import OokbSettings, run_ookb

__all__ = [
    "BasicRag",
    "Case",
    "CaseKind",
    "OokbCalibrated",
    "OokbCalibration",
    "OokbQuestion",
    "OokbRow",
    "OokbRun",
    "OokbSettings",
    "RowError",
    "build_cases",
    "calibrate_ookb",
    "read_ookb_run",
    "run_ookb",
]
