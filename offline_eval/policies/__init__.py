"""Calibration with a guarantee, from measured cases to a policy and its report.

records file, run ─► measured cases ─► three parts ─► calibrators, declared path
                                                  └─► certificate ─► policy, report
"""

from __future__ import annotations

from ._calibrate import calibrate_records
from ._fit import Calibrated, is_leak_promise, parse_costs
from ._records import MeasuredCases, Rates, records_from_run
from ._records_file import read_records
from ._refit import Recalibrated, recalibrate, require_same_instruments
from ._report import draw_calibration_report

__all__ = [
    "Calibrated",
    "MeasuredCases",
    "Rates",
    "Recalibrated",
    "calibrate_records",
    "draw_calibration_report",
    "is_leak_promise",
    "parse_costs",
    "read_records",
    "recalibrate",
    "records_from_run",
    "require_same_instruments",
]
