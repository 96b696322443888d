"""Scores → probabilities, thresholds with guarantees, intervals.

CalibrationRecord                          what policies are fitted on
fit_platt, CalibratorChoice                scores → probabilities
ReliabilityDiagram                         how good probabilities are
SelectiveCurve                             how well scores tell cases apart, risk against coverage
PairedScores                               several scorers on the same cases, compared
Interval, mcnemar_p_value, …              intervals and paired tests
fit_cascade_bands, fit_hidden_state_probe  parts of confidence estimators

risk         policies whose risk is controlled
monitoring   drift and risk while a policy serves
training     scorers and language models adapted to one's own data
"""

from __future__ import annotations

from .calibrators import CalibratorChoice
from .hidden_state_probe import fit_cascade_bands, fit_hidden_state_probe
from .probability_quality import ReliabilityDiagram
from .records import CalibrationRecord
from .selective_metrics import SelectiveCurve
from .statistics import Interval

__all__ = [
    "CalibrationRecord",
    "CalibratorChoice",
    "Interval",
    "ReliabilityDiagram",
    "SelectiveCurve",
    "fit_cascade_bands",
    "fit_hidden_state_probe",
]
