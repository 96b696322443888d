"""Calibration with a guarantee, from measured records to a policy and its report.

records file, run ─► CalibrationSet ─► fit, on parts of the questions ─► policy, report
logged decisions ─► shadow_report: what enforcing a policy would have changed
"""

from __future__ import annotations

from ._calibrated import Calibrated
from ._fit import calibrate_records
from .shadow import shadow_report
from .writing import calibrate_chain, calibrate_run, write_calibrated

__all__ = [
    "Calibrated",
    "calibrate_chain",
    "calibrate_records",
    "calibrate_run",
    "shadow_report",
    "write_calibrated",
]
