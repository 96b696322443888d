"""Scores → probabilities, thresholds with guarantees, intervals.

Pure statistics stand apart from what makes policies of them:

    intervals, binomial, discrimination, selective   numbers in, numbers out
    threshold, platt                                 one choice each
    records, leave_one_out                           a policy from measured questions
"""

from __future__ import annotations

from ._binomial import SMALLEST_PROBABILITY, binomial_p_value, errors_allowed, questions_needed
from ._discrimination import auroc, bootstrap_auroc
from ._intervals import UNDEFINED, Interval, wilson_interval
from ._leave_one_out import fit_leave_one_out_policy
from ._platt import fit_platt
from ._records import LeaveOneOutRecord, one_per_group, records_sha256, split_by_group
from ._selective import OperatingPoint, risk_coverage_curve
from ._threshold import ThresholdChoice, choose_threshold

__all__ = [
    "SMALLEST_PROBABILITY",
    "UNDEFINED",
    "Interval",
    "LeaveOneOutRecord",
    "OperatingPoint",
    "ThresholdChoice",
    "auroc",
    "binomial_p_value",
    "bootstrap_auroc",
    "choose_threshold",
    "errors_allowed",
    "fit_leave_one_out_policy",
    "fit_platt",
    "one_per_group",
    "questions_needed",
    "records_sha256",
    "risk_coverage_curve",
    "split_by_group",
    "wilson_interval",
]
