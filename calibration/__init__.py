"""Scores → probabilities, thresholds with guarantees, intervals.

CalibrationRecord                          what policies are fitted on
fit_platt, CalibratorChoice                scores → probabilities
ReliabilityDiagram                         how good probabilities are
SelectiveCurve, OperatingPoint             how well scores tell cases apart, risk against coverage
PairedScores                               several scorers on the same cases, compared
Interval, QuestionResamples, mcnemar …     intervals and paired tests
fit_cascade_bands, fit_hidden_state_probe  parts of confidence estimators

risk         policies whose risk is controlled
monitoring   drift and risk while a policy serves
training     scorers and language models adapted to one's own data
"""

from __future__ import annotations

from ._calibrators import CalibratorChoice, fit_platt
from ._hidden_state_probe import ProbeSearch, fit_cascade_bands, fit_hidden_state_probe
from ._probability_quality import ReliabilityBin, ReliabilityDiagram
from ._records import MISSING_CASES, CalibrationRecord
from ._selective_metrics import OperatingPoint, PairedScores, SelectiveCurve
from ._statistics import Interval, QuestionResamples, holm_adjusted, mcnemar_p_value

__all__ = [
    "MISSING_CASES",
    "CalibrationRecord",
    "CalibratorChoice",
    "Interval",
    "OperatingPoint",
    "PairedScores",
    "ProbeSearch",
    "QuestionResamples",
    "ReliabilityBin",
    "ReliabilityDiagram",
    "SelectiveCurve",
    "fit_cascade_bands",
    "fit_hidden_state_probe",
    "fit_platt",
    "holm_adjusted",
    "mcnemar_p_value",
]
