"""The out-of-knowledge-base suite: leave one out, and see what passes.

Source: "Know Or Not: a library for designing application-specific
out-of-knowledge base robustness".
"""

from __future__ import annotations

from ._artefacts import (
    InputFile,
    OokbManifest,
    OokbManifestSettings,
    OokbQuestion,
    OokbRow,
    RowError,
)
from ._calibrate import OokbCalibrated, calibrate_ookb
from ._cases import Case, CaseKind, build_cases
from ._embedding import embed_all
from ._reading import OokbCalibration, OokbRun, read_ookb_run
from ._retrieval import BasicRag, Encoder
from ._run import OokbSettings, run_ookb

__all__ = [
    "BasicRag",
    "Case",
    "CaseKind",
    "Encoder",
    "InputFile",
    "OokbCalibrated",
    "OokbCalibration",
    "OokbManifest",
    "OokbManifestSettings",
    "OokbQuestion",
    "OokbRow",
    "OokbRun",
    "OokbSettings",
    "RowError",
    "build_cases",
    "calibrate_ookb",
    "embed_all",
    "read_ookb_run",
    "run_ookb",
]
