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

from ._certificate import Certificate, PointResult, TargetResult, certify
from ._coverage_target import fit_policy_for_coverage
from ._evidence import ROUTE_CODES, Evidence, route_codes
from ._learned_path import learn_path
from ._loss import LossTable, RiskTarget
from ._multiple_testing import bonferroni, fixed_sequence, holm
from ._p_values import hoeffding_bentkus_p_value
from ._path import PathPoint, as_path, diagonal_path, grid_path
from ._policy_fit import PolicyBinding, fit_policy
from ._units import one_per_question, split_questions

__all__ = [
    "ROUTE_CODES",
    "Certificate",
    "Evidence",
    "LossTable",
    "PathPoint",
    "PointResult",
    "PolicyBinding",
    "RiskTarget",
    "TargetResult",
    "as_path",
    "bonferroni",
    "certify",
    "diagonal_path",
    "fit_policy",
    "fit_policy_for_coverage",
    "fixed_sequence",
    "grid_path",
    "hoeffding_bentkus_p_value",
    "holm",
    "learn_path",
    "one_per_question",
    "route_codes",
    "split_questions",
]
