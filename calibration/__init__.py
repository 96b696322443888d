"""Scores → probabilities, thresholds with guarantees, intervals.

Pure statistics stand apart from what makes policies of them:

    intervals, binomial, discrimination, selective   numbers in, numbers out
    leak_rates, calibration_error, brier             likewise
    question_resamples                               likewise
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
from ._calibrator_choice import CalibratorChoice, choose_calibrator
from ._calibrators import fit_platt
from ._cascade_bands import fit_cascade_bands
from ._hidden_state_probe import fit_hidden_state_probe
from ._judge_error import prediction_powered_rate, rogan_gladen
from ._probability_quality import (
    ReliabilityDiagram,
    auroc,
    bootstrap_auroc,
    brier_score,
    debiased_calibration_error,
    expected_calibration_error,
    reliability_diagram,
)
from ._question_resamples import QuestionResamples, difference_interval, share_interval
from ._records import CalibrationEvidence, CalibrationRecord, leave_one_out_pair
from ._selective_metrics import (
    OperatingPoint,
    SelectiveCurve,
    augrc,
    aurc,
    coverage_at_risk,
    excess_aurc,
    risk_coverage_curve,
    selective_curve,
)
from ._statistics import (
    SMALLEST_PROBABILITY,
    UNDEFINED,
    Interval,
    binomial_p_value,
    bootstrap_interval,
    errors_allowed,
    holm_adjusted,
    mcnemar_p_value,
    paired_difference,
    questions_needed,
    wilson_interval,
)

__all__ = [
    "SMALLEST_PROBABILITY",
    "UNDEFINED",
    "CalibrationEvidence",
    "CalibrationRecord",
    "CalibratorChoice",
    "Interval",
    "OperatingPoint",
    "QuestionResamples",
    "ReliabilityDiagram",
    "SelectiveCurve",
    "augrc",
    "aurc",
    "auroc",
    "binomial_p_value",
    "bootstrap_auroc",
    "bootstrap_interval",
    "brier_score",
    "choose_calibrator",
    "cohens_kappa",
    "coverage_at_risk",
    "debiased_calibration_error",
    "difference_interval",
    "errors_allowed",
    "excess_aurc",
    "expected_calibration_error",
    "fit_cascade_bands",
    "fit_hidden_state_probe",
    "fit_platt",
    "fleiss_kappa",
    "holm_adjusted",
    "krippendorff_alpha",
    "leave_one_out_pair",
    "mcnemar_p_value",
    "paired_difference",
    "prediction_powered_rate",
    "questions_needed",
    "reliability_diagram",
    "risk_coverage_curve",
    "rogan_gladen",
    "selective_curve",
    "share_interval",
    "wilson_interval",
]
