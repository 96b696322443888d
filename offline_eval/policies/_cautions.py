"""Warnings about a calibration, and what its guarantee does not cover."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...calibration import CalibrationRecord
from ...calibration.risk import LEARN_CALIBRATORS, PolicyBinding
from ...guard.policy import Policy
from ._records import CalibrationSet

_FEW_UNITS = 30
_CROWDED = 3.0


def limits(policy: Policy) -> list[str]:
    """List what the guarantee does not cover, beyond what its own statement says.

    Empty where nothing is certified: then there is no promise with limits.
    """
    if policy.guarantee is None or not policy.guarantee.certified:
        return []
    kinds = {risk.kind for risk in policy.guarantee.risks}
    lines = ["questions of which fewer can be answered than of these: more of what passes is wrong"]
    if not kinds & {"false_abstention", "cost"}:
        lines.append("how often it abstains without need: that is measured, not bounded")
    if policy.may_follow and policy.may_answer and "answer" not in kinds:
        lines.append(
            "each route on its own: contexts followed and answers from memory are bounded together"
        )
    if policy.scorer.kind == PolicyBinding.UNNAMED.kind:
        lines.append(
            "a guard that serves with some scorer: the records do not name theirs, so no guard "
            "loads this policy"
        )
    return lines


def cautions(
    measured: CalibrationSet, certify: Sequence[CalibrationRecord], policy: Policy, *, share: float
) -> list[str]:
    """List what to know before trusting the promise; often nothing.

    Args:
        measured: all records.
        certify: those that the certificate rests on.
        policy: the fitted one.
        share: of the questions that was fitted on.
    """
    certified = policy.guarantee is not None and policy.guarantee.certified
    found = [*_unnamed(measured), *(_crowded(certify) if certified else [])]
    found += [*_off_scale(measured), *_unjudged(measured), *_unbound(measured)]
    return [*found, *_in_all(measured, certify, policy, share)]


def _in_all(
    measured: CalibrationSet, certify: Sequence[CalibrationRecord], policy: Policy, share: float
) -> list[str]:
    """The number of further questions that would help, of all and not of those that certify."""
    more = None if policy.guarantee is None else policy.guarantee.more_questions
    if more is None:
        return []
    certifying = len({case.question_id for case in certify})
    needed = LEARN_CALIBRATORS.questions_for(certifying + more) / share
    given = math.ceil(needed - 1e-9) - measured.questions
    return [
        f"The number of further questions counts those that certify, {certifying} of the "
        f"{measured.questions} here: in all it takes about {max(more, given)} more."
    ]


def _unnamed(measured: CalibrationSet) -> list[str]:
    lines = []
    if measured.scorer is None:
        lines.append(
            "The records do not name the relevance scorer that measured them, so the policy is "
            'bound to none and no guard loads it: add {"scorer": {"kind": …}} as their first line.'
        )
    if measured.estimator is None and any(c.confidence is not None for c in measured.records):
        lines.append(
            "The records do not name the confidence estimator that measured them, so no guard can "
            'check that it serves with the same one: add {"estimator": {"kind": …}} to their '
            "first line."
        )
    return lines


def _crowded(certify: Sequence[CalibrationRecord]) -> list[str]:
    questions = len({case.question_id for case in certify})
    units = len({case.unit for case in certify})
    lines = []
    if units < _FEW_UNITS:
        lines.append(
            f"Only {units} independent units certify: a promise from so few depends on each of "
            "them."
        )
    if units and questions / units >= _CROWDED:
        lines.append(
            f"{questions} questions come from {units} groups. Questions of one group tend to go "
            "alike, so that each group counts once: more groups say more than more questions."
        )
    return lines


def _off_scale(measured: CalibrationSet) -> list[str]:
    """A guard takes relevance on any scale, but confidence as a probability alone."""
    off = sum(c.confidence is not None and not 0 <= c.confidence <= 1 for c in measured.records)
    if not off:
        return []
    return [
        f"In {off} case{'' if off == 1 else 's'} confidence lies outside 0 and 1. A guard takes "
        "such a confidence for a failed one: bring it to 0 to 1 before measuring and serving."
    ]


def _unbound(measured: CalibrationSet) -> list[str]:
    if not measured.unbound:
        return []
    return [
        "The run is of an earlier version, in which a row that was edited, lost or taken from "
        "another run is not noticed: measure into a new folder if that may have happened."
    ]


def _unjudged(measured: CalibrationSet) -> list[str]:
    unknown = sum(case.context_right is None for case in measured.records)
    if not unknown:
        return []
    return [
        f"Of {unknown} cases it is not known whether the reply from the context is right; they "
        "count as wrong."
    ]
