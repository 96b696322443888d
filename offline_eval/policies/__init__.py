"""Calibration with a guarantee, from measured records to a policy and its report.

records file, run ─► CalibrationSet ─► fit, on parts of the questions ─► policy, report
"""

from __future__ import annotations

from ._chain import calibrate_chain
from ._fit import Calibrated, calibrate_records
from ._promise import parse_costs
from ._rates import LeakRates, Rates
from ._records import CalibrationSet, records_from_run
from ._records_file import read_records
from ._refit import Recalibrated, recalibrate
from ._writing import calibrate_run, require_apart, write_calibrated

__all__ = [
    "Calibrated",
    "CalibrationSet",
    "LeakRates",
    "Rates",
    "Recalibrated",
    "calibrate_chain",
    "calibrate_records",
    "calibrate_run",
    "parse_costs",
    "read_records",
    "recalibrate",
    "records_from_run",
    "require_apart",
    "write_calibrated",
]
