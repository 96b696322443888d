"""Life after deployment: drift, abstention rate and risk, watched while the guard serves.

compare, compare_with_mixture             histograms, how far apart
RiskMonitor, RateChangeDetector             streams, evidence valid at every moment
calibration_histograms,                     what a policy keeps, what live signals
  compare_with_calibration                    are compared with
DecisionMonitor                             all of it, as an observer of a guard
"""

from __future__ import annotations

from ._decision_monitor import AlarmSettings, DecisionMonitor
from ._distance import calibration_histograms

__all__ = ["AlarmSettings", "DecisionMonitor", "calibration_histograms"]
