"""Calibration with a guarantee, from measured records to a policy and its report.

records file, run ─► CalibrationSet ─► fit, on parts of the questions ─► policy, report
logged decisions ─► shadow_report: what enforcing a policy would have changed
"""

from __future__ import annotations

from ._calibrated import Calibrated
from ._fit import calibrate_records
from ._records import CalibrationSet
from ._records_file import read_records
from ._refit import recalibrate
from ._shadow_report import shadow_report, write_labelled_questions
from ._writing import calibrate_chain, calibrate_run, judge_by, require_apart, write_calibrated

__all__ = [
    "Calibrated",
    "CalibrationSet",
    "calibrate_chain",
    "calibrate_records",
    "calibrate_run",
    "judge_by",
    "read_records",
    "recalibrate",
    "require_apart",
    "shadow_report",
    "write_calibrated",
    "write_labelled_questions",
]
