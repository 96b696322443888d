"""Scores → probabilities, thresholds with guarantees, intervals.

Pure statistics stand apart from what makes policies of them:

    intervals, binomial, discrimination, selective   numbers in, numbers out
    leak_rates, calibration_error                    likewise
    threshold, platt, cascade_bands                  one choice each
    hidden_state_probe                               a classifier on a model's states
    records, leave_one_out                           a policy from measured questions
"""

from __future__ import annotations

from ._binomial import SMALLEST_PROBABILITY, binomial_p_value, errors_allowed, questions_needed
from ._calibration_error import expected_calibration_error
from ._cascade_bands import CascadeBands, fit_cascade_bands
from ._discrimination import auroc, bootstrap_auroc
from ._hidden_state_probe import ProbedLanguageModel, ProbeFit, fit_hidden_state_probe
from ._intervals import UNDEFINED, Interval, wilson_interval
from ._leak_rates import false_abstention_at_leak
from ._leave_one_out import fit_leave_one_out_policy
from ._platt import fit_platt
from ._records import LeaveOneOutRecord, one_per_group, records_sha256, split_by_group
from ._selective import OperatingPoint, risk_coverage_curve
from ._threshold import ThresholdChoice, choose_threshold

__all__ = [
    "SMALLEST_PROBABILITY",
    "UNDEFINED",
    "CascadeBands",
    "Interval",
    "LeaveOneOutRecord",
    "OperatingPoint",
    "ProbeFit",
    "ProbedLanguageModel",
    "ThresholdChoice",
    "auroc",
    "binomial_p_value",
    "bootstrap_auroc",
    "choose_threshold",
    "errors_allowed",
    "expected_calibration_error",
    "false_abstention_at_leak",
    "fit_cascade_bands",
    "fit_hidden_state_probe",
    "fit_leave_one_out_policy",
    "fit_platt",
    "one_per_group",
    "questions_needed",
    "records_sha256",
    "risk_coverage_curve",
    "split_by_group",
    "wilson_interval",
]
