"""What a promise does not say, and what to know before trusting it."""

from __future__ import annotations

from collections.abc import Sequence

from ...guard import Policy
from ._measured import MeasuredCase, MeasuredCases

UNNAMED = "unnamed"
"""Kind of the fingerprint that stands for "nobody said what measured it"."""

_FEW_UNITS = 30
_CROWDED = 3.0


def limits(policy: Policy) -> list[str]:
    """What the guarantee does not speak of, beyond what its own statement says."""
    kinds = set() if policy.guarantee is None else {risk.kind for risk in policy.guarantee.risks}
    lines = ["questions of which fewer can be answered than of these: more of what passes is wrong"]
    if not kinds & {"false_abstention", "cost"}:
        lines.append("how often it declines without need: that is measured, not bounded")
    if policy.may_follow and policy.may_answer and "answer" not in kinds:
        lines.append(
            "each route on its own: contexts followed and answers from memory are bounded together"
        )
    if policy.scorer.kind == UNNAMED:
        lines.append(
            "a guard that serves with some scorer: the records do not name theirs, so no guard "
            "loads this policy"
        )
    return lines


def cautions(measured: MeasuredCases, certify: Sequence[MeasuredCase]) -> list[str]:
    """What to know before trusting the promise; often nothing.

    Args:
        measured: all cases.
        certify: those that the certificate rests on.
    """
    return [*_unnamed(measured), *_crowded(certify), *_unjudged(measured)]


def _unnamed(measured: MeasuredCases) -> list[str]:
    lines = []
    if measured.scorer is None:
        lines.append(
            "The records do not name the relevance scorer that measured them, so the policy is "
            'bound to none and no guard loads it: add {"scorer": {"kind": …}} as their first line.'
        )
    if measured.estimator is None and any(c.confidence is not None for c in measured.cases):
        lines.append(
            "The records do not name the confidence estimator that measured them, so no guard can "
            'check that it serves with the same one: add {"estimator": {"kind": …}} to their '
            "first line."
        )
    return lines


def _crowded(certify: Sequence[MeasuredCase]) -> list[str]:
    questions = len({case.question_id for case in certify})
    units = len({case.unit for case in certify})
    lines = []
    if units < _FEW_UNITS:
        lines.append(
            f"Only {units} independent unit{'' if units == 1 else 's'} certify: a promise from so "
            "few hangs on each of them."
        )
    if units and questions / units >= _CROWDED:
        lines.append(
            f"{questions} questions come from {units} groups. Questions of one group tend to go "
            "alike, and the test takes each for independent: more groups say more than more "
            "questions."
        )
    return lines


def _unjudged(measured: MeasuredCases) -> list[str]:
    unknown = sum(case.context_right is None for case in measured.cases)
    if not unknown:
        return []
    return [
        f"Of {unknown} cases nobody knows whether the context's answer is right; they count as "
        "wrong."
    ]
