"""Scores → probabilities, thresholds with guarantees, intervals.

CalibrationRecord, leave_one_out_pair      what policies are fitted on
fit_platt, choose_calibrator               scores → probabilities
reliability_diagram, brier_score, auroc …  how good scores and probabilities are
selective_curve, aurc, coverage_at_risk …  risk against coverage
wilson_interval, bootstrap_interval …      intervals and paired tests
cohens_kappa, rogan_gladen …               people and judges compared
fit_cascade_bands, fit_hidden_state_probe  parts of confidence estimators

risk         policies whose risk is controlled
monitoring   drift and risk while a policy serves
training     scorers and language models adapted to one's own data
"""

from __future__ import annotations

from ._agreement import cohens_kappa, fleiss_kappa, krippendorff_alpha
from ._calibrator_choice import CalibratorChoice, choose_calibrator
from ._calibrators import fit_platt
from ._cascade_bands import fit_cascade_bands
from ._hidden_state_probe import ProbeSearch, fit_hidden_state_probe
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
from ._question_resamples import QuestionResamples
from ._records import CalibrationRecord, leave_one_out_pair
from ._selective_metrics import (
    OperatingPoint,
    SelectiveCurve,
    augrc,
    aurc,
    coverage_at_risk,
    excess_aurc,
    false_abstention_at_leak,
    risk_coverage_curve,
    selective_curve,
)
from ._statistics import (
    Interval,
    bootstrap_interval,
    holm_adjusted,
    mcnemar_p_value,
    paired_difference,
    wilson_interval,
)

__all__ = [
    "CalibrationRecord",
    "CalibratorChoice",
    "Interval",
    "OperatingPoint",
    "ProbeSearch",
    "QuestionResamples",
    "ReliabilityDiagram",
    "SelectiveCurve",
    "augrc",
    "aurc",
    "auroc",
    "bootstrap_auroc",
    "bootstrap_interval",
    "brier_score",
    "choose_calibrator",
    "cohens_kappa",
    "coverage_at_risk",
    "debiased_calibration_error",
    "excess_aurc",
    "expected_calibration_error",
    "false_abstention_at_leak",
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
    "reliability_diagram",
    "risk_coverage_curve",
    "rogan_gladen",
    "selective_curve",
    "wilson_interval",
]
