"""Risk control for the three-way router: thresholds whose promise holds.

    records ─► path (learned apart, or given) ─► exact test, point by point ─► Fit

`fit_policy` is the entry for every kind of risk:

    0.1, RiskTarget(…), [RiskTarget(…), …]   wrong answers let through, or their cost
    Coverage(0.7)                            a share that must be let through
    Leak(0.1)                                unanswerable questions that pass

`certify`, `learn_path` and `grid_path` are its parts, for procedures of your own.
"""

from __future__ import annotations

from ._certificate import Evidence, certify, route_codes
from ._fit import UNNAMED, Fit, PolicyBinding
from ._learned_path import learn_path
from ._path import PathPoint, grid_path
from ._policy_fit import fit_policy
from ._risks import LEARN_CALIBRATORS, Coverage, Leak, LossTable, Risk, RiskTarget, risk_targets
from ._units import one_per_question, split_questions

__all__ = [
    "LEARN_CALIBRATORS",
    "UNNAMED",
    "Coverage",
    "Evidence",
    "Fit",
    "Leak",
    "LossTable",
    "PathPoint",
    "PolicyBinding",
    "Risk",
    "RiskTarget",
    "certify",
    "fit_policy",
    "grid_path",
    "learn_path",
    "one_per_question",
    "risk_targets",
    "route_codes",
    "split_questions",
]
