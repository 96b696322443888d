"""Risk control for the three-way router: thresholds whose promise holds.

    records ─► path (learned apart, or given) ─► exact test, point by point ─► Fit

`fit_policy` is the entry for every kind of risk:

    0.1, RiskTarget(…), [RiskTarget(…), …]   wrong answers let through, or their cost
    Coverage(0.7)                            a share that must be let through
    Leak(0.1)                                unanswerable questions that pass
    Costs(5), MaxAbstention(0.25)            no promise: the threshold that costs least

`certify`, `learn_path` and `PathPoint.grid` are its parts, for procedures of your own.
"""

from __future__ import annotations

from ._certificate import Evidence, certify
from ._costs import LeakFold
from ._fit import Cascade, CascadeBand, Fit, PolicyBinding, Problem
from ._leak import populations_of
from ._learned_path import learn_path
from ._path import PathPoint
from ._plan import LeakPlan
from ._policy_fit import fit_policy
from ._risks import (
    LEARN_CALIBRATORS,
    Costs,
    Coverage,
    Leak,
    LossTable,
    MaxAbstention,
    Risk,
    RiskTarget,
)

__all__ = [
    "LEARN_CALIBRATORS",
    "Cascade",
    "CascadeBand",
    "Costs",
    "Coverage",
    "Evidence",
    "Fit",
    "Leak",
    "LeakFold",
    "LeakPlan",
    "LossTable",
    "MaxAbstention",
    "PathPoint",
    "PolicyBinding",
    "Problem",
    "Risk",
    "RiskTarget",
    "certify",
    "fit_policy",
    "learn_path",
    "populations_of",
]
