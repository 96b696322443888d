"""Calibration with a guarantee, from measured cases to a policy and its report.

records file, run ─► measured cases ─► three parts ─► calibrators, declared path
                                                  └─► certificate ─► policy, report
"""

from __future__ import annotations

from ._calibrate import calibrate_records
from ._calibrated import Calibrated
from ._from_ookb import records_from_ookb
from ._from_runs import records_from_run
from ._from_uniknow import records_from_uniknow
from ._losses import is_leak_promise, parse_costs
from ._measured import MeasuredCase, MeasuredCases
from ._outcomes import Outcome, Rates, clustered_rate, outcomes_under, rates_of
from ._path_steps import PathStep
from ._recalibrating import Recalibrated, recalibrate, require_same_instruments
from ._records_file import read_records, record_lines
from ._report import (
    CalibrationReportPaths,
    DrawnReport,
    draw_calibration_report,
    write_calibration_report,
)

__all__ = [
    "Calibrated",
    "CalibrationReportPaths",
    "DrawnReport",
    "MeasuredCase",
    "MeasuredCases",
    "Outcome",
    "PathStep",
    "Rates",
    "Recalibrated",
    "calibrate_records",
    "clustered_rate",
    "draw_calibration_report",
    "is_leak_promise",
    "outcomes_under",
    "parse_costs",
    "rates_of",
    "read_records",
    "recalibrate",
    "record_lines",
    "records_from_ookb",
    "records_from_run",
    "records_from_uniknow",
    "require_same_instruments",
    "write_calibration_report",
]
