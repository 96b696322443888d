"""Risk control for the three-way router: thresholds whose promise holds.

    records ─► path (learned apart, or given) ─► exact test, point by point ─► Fit

`fit_policy` is the entry for every kind of risk:

    0.1, RiskTarget(…), [RiskTarget(…), …]   wrong answers let through, or their cost
    Coverage(0.7)                            a share that must be let through
    Leak(0.1)                                unanswerable questions that pass
    Costs(5), MaxAbstention(0.25)            no promise: the threshold that costs least

`certify`, `forecast_path` and `PathPoint.grid` are its parts, for procedures of your own.
"""

from __future__ import annotations

from ...guard.errors import optional_import
from ._policy_fit import fit_policy
from .certificate import certify
from .fit import Fit
from .risks import Costs, Coverage, Leak, MaxAbstention, RiskTarget

__all__ = [
    "Costs",
    "Coverage",
    "Fit",
    "Leak",
    "MaxAbstention",
    "RiskTarget",
    "certify",
    "fit_policy",
]

# The tests rest on it, and what decides in service does without.
optional_import("scipy")
