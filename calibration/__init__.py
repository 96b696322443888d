"""Scores → probabilities, thresholds with guarantees, intervals.

Pure statistics stand apart from what makes policies of them:

    intervals, binomial, discrimination, selective   numbers in, numbers out
    leak_rates, calibration_error, brier             likewise
    reliability, selective_metrics, bootstrap        likewise
    agreement, judge_error, paired_tests             people, judges, systems compared
    platt, temperature, isotonic, venn_abers         scores → probabilities
    calibrator_choice                                which of these, by cross-validation
    threshold, cascade_bands                         one choice each
    hidden_state_probe                               a classifier on a model's states
    records, leave_one_out                           a policy from measured questions
    calibration_record, risk_control                 a three-way policy whose promise holds
    monitoring                                       drift and risk while it serves
"""

from __future__ import annotations

from ._agreement import cohens_kappa, fleiss_kappa, krippendorff_alpha
from ._binomial import SMALLEST_PROBABILITY, binomial_p_value, errors_allowed, questions_needed
from ._bootstrap import bootstrap_interval
from ._brier import brier_score
from ._calibration_error import debiased_calibration_error, expected_calibration_error
from ._calibration_record import CalibrationEvidence, CalibrationRecord, as_calibration_records
from ._calibrator_choice import CalibratorChoice, choose_calibrator
from ._cascade_bands import CascadeBands, fit_cascade_bands
from ._discrimination import auroc, bootstrap_auroc
from ._hidden_state_probe import ProbedLanguageModel, ProbeFit, fit_hidden_state_probe
from ._intervals import UNDEFINED, Interval, wilson_interval
from ._isotonic import fit_isotonic
from ._judge_error import prediction_powered_rate, rogan_gladen
from ._leak_rates import false_abstention_at_leak
from ._leave_one_out import fit_leave_one_out_policy
from ._paired_tests import holm_adjusted, mcnemar_p_value, paired_difference
from ._platt import fit_platt
from ._records import LeaveOneOutRecord, one_per_group, records_sha256, split_by_group
from ._reliability import ReliabilityBin, ReliabilityDiagram, reliability_diagram
from ._selective import OperatingPoint, risk_coverage_curve
from ._selective_metrics import (
    SelectiveCurve,
    augrc,
    aurc,
    coverage_at_risk,
    excess_aurc,
    selective_curve,
)
from ._temperature import fit_temperature
from ._threshold import ThresholdChoice, choose_threshold
from ._venn_abers import fit_venn_abers
from .risk_control import (
    LossTable,
    PathPoint,
    PolicyBinding,
    RiskTarget,
    diagonal_path,
    fit_policy,
    fit_policy_for_coverage,
    hoeffding_bentkus_p_value,
)

__all__ = [
    "SMALLEST_PROBABILITY",
    "UNDEFINED",
    "CalibrationEvidence",
    "CalibrationRecord",
    "CalibratorChoice",
    "CascadeBands",
    "Interval",
    "LeaveOneOutRecord",
    "LossTable",
    "OperatingPoint",
    "PathPoint",
    "PolicyBinding",
    "ProbeFit",
    "ProbedLanguageModel",
    "ReliabilityBin",
    "ReliabilityDiagram",
    "RiskTarget",
    "SelectiveCurve",
    "ThresholdChoice",
    "as_calibration_records",
    "augrc",
    "aurc",
    "auroc",
    "binomial_p_value",
    "bootstrap_auroc",
    "bootstrap_interval",
    "brier_score",
    "choose_calibrator",
    "choose_threshold",
    "cohens_kappa",
    "coverage_at_risk",
    "debiased_calibration_error",
    "diagonal_path",
    "errors_allowed",
    "excess_aurc",
    "expected_calibration_error",
    "false_abstention_at_leak",
    "fit_cascade_bands",
    "fit_hidden_state_probe",
    "fit_isotonic",
    "fit_leave_one_out_policy",
    "fit_platt",
    "fit_policy",
    "fit_policy_for_coverage",
    "fit_temperature",
    "fit_venn_abers",
    "fleiss_kappa",
    "hoeffding_bentkus_p_value",
    "holm_adjusted",
    "krippendorff_alpha",
    "mcnemar_p_value",
    "one_per_group",
    "paired_difference",
    "prediction_powered_rate",
    "questions_needed",
    "records_sha256",
    "reliability_diagram",
    "risk_coverage_curve",
    "rogan_gladen",
    "selective_curve",
    "split_by_group",
    "wilson_interval",
]
