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
from ._leak import smallest_leak
from ._leak_folds import LeakFold, leak_folds
from ._learned_path import learn_path
from ._path import PathPoint, grid_path
from ._plan import LeakPlan, plan_leak, simulate_leak
from ._policy_fit import fit_policy
from ._problems import MAX_FALSE_ABSTENTION, Problem, find_problems
from ._risks import LEARN_CALIBRATORS, Coverage, Leak, LossTable, Risk, RiskTarget, risk_targets
from ._units import one_per_question, split_questions

__all__ = [
    "LEARN_CALIBRATORS",
    "MAX_FALSE_ABSTENTION",
    "UNNAMED",
    "Coverage",
    "Evidence",
    "Fit",
    "Leak",
    "LeakFold",
    "LeakPlan",
    "LossTable",
    "PathPoint",
    "PolicyBinding",
    "Problem",
    "Risk",
    "RiskTarget",
    "certify",
    "find_problems",
    "fit_policy",
    "grid_path",
    "leak_folds",
    "learn_path",
    "one_per_question",
    "plan_leak",
    "risk_targets",
    "route_codes",
    "simulate_leak",
    "smallest_leak",
    "split_questions",
]
