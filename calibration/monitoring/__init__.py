"""Life after deployment: drift, abstention rate and risk, watched while the guard serves.

population_stability_index, ks_statistic,   two histograms, how far apart
  compare_with_mixture
RiskMonitor, RateChangeDetector             streams, evidence valid at every moment
calibration_histograms,                     what a policy keeps, what live signals
  compare_with_calibration                    are held against
DecisionMonitor                             all of it, as an observer of a guard
"""

from __future__ import annotations

from ._binning import MeasuredSignals, calibration_histograms
from ._decision_monitor import DecisionMonitor
from ._distance import Distance
from ._drift import DriftReport, DriftVerdict, SignalDrift, compare_with_calibration
from ._kolmogorov import ks_statistic
from ._mixture import MixtureComparison, compare_with_mixture
from ._monitor_report import AbstentionState, MonitorReport, RiskState
from ._rate_change import RateChange, RateChangeDetector
from ._risk_monitor import RiskMonitor
from ._stability import population_stability_index

__all__ = [
    "AbstentionState",
    "DecisionMonitor",
    "Distance",
    "DriftReport",
    "DriftVerdict",
    "MeasuredSignals",
    "MixtureComparison",
    "MonitorReport",
    "RateChange",
    "RateChangeDetector",
    "RiskMonitor",
    "RiskState",
    "SignalDrift",
    "calibration_histograms",
    "compare_with_calibration",
    "compare_with_mixture",
    "ks_statistic",
    "population_stability_index",
]
