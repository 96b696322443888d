"""Risk control for the three-way router: thresholds whose promise holds.

records ─► path (learned apart, or given) ─► exact test, point by point ─► Policy

path, loss                        what is tested, and what counts as going wrong
p_values, multiple_testing        pure statistics
evidence, certificate             routes and losses of many points at once; the test
correctness_model, learned_path   a path from a small part of the questions
units                             one record per question; groups stay together
policy_fit, coverage_target       the policy, and what it says of itself
"""

from __future__ import annotations

from ._certificate import Certificate, Evidence, certify, route_codes
from ._coverage_target import fit_policy_for_coverage
from ._learned_path import learn_path
from ._leave_one_out import false_abstention_at_leak, fit_leave_one_out_policy
from ._losses import LossTable, RiskTarget, one_per_question, split_questions
from ._path import PathPoint, grid_path
from ._policy_fit import PolicyBinding, fit_policy
from ._tests import bonferroni, holm

__all__ = [
    "Certificate",
    "Evidence",
    "LossTable",
    "PathPoint",
    "PolicyBinding",
    "RiskTarget",
    "bonferroni",
    "certify",
    "false_abstention_at_leak",
    "fit_leave_one_out_policy",
    "fit_policy",
    "fit_policy_for_coverage",
    "grid_path",
    "holm",
    "learn_path",
    "one_per_question",
    "route_codes",
    "split_questions",
]
