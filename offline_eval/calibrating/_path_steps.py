"""The declared path as it was tested, point by point."""

from __future__ import annotations

from dataclasses import dataclass

from ...calibration.risk_control import Certificate
from ...guard import Policy


@dataclass(frozen=True, slots=True)
class PathStep:
    """One point of the path, on the questions that certify.

    Attributes:
        number: from 1, in the order declared.
        relevance: threshold on relevance, None: no context is followed.
        confidence: threshold on confidence, None: nothing is answered from memory.
        on_conflict: what a conflict does to a context that passes.
        coverage: share of questions let through; None without questions.
        risk: of the first bound: the share that went wrong, or the mean cost; None where
            no question counts for it.
        p_value: of "some bound is broken"; where a coverage was asked for, of "too little is
            let through".
        tested: whether testing came this far.
        chosen: whether the policy has this point.
    """

    number: int
    relevance: float | None
    confidence: float | None
    on_conflict: str
    coverage: float | None
    risk: float | None
    p_value: float
    tested: bool
    chosen: bool


def steps_of_certificate(certificate: Certificate, delta: float) -> list[PathStep]:
    """All points of the path, with what came of testing them at level `delta`."""
    end = certificate.first
    while end < len(certificate.points) and certificate.points[end].p_value <= delta:
        end += 1
    return [
        PathStep(
            number=index + 1,
            relevance=found.point.relevance,
            confidence=found.point.confidence,
            on_conflict=found.point.on_conflict,
            coverage=(found.let_through / certificate.questions if certificate.questions else None),
            risk=found.results[0].loss / found.results[0].n if found.results[0].n else None,
            p_value=found.p_value,
            # The first that fails was tested too.
            tested=certificate.first <= index <= end,
            chosen=index == certificate.chosen,
        )
        for index, found in enumerate(certificate.points)
    ]


def steps_of_coverage(policy: Policy) -> list[PathStep]:
    """The points of a policy whose coverage was asked for: tested from lax to strict.

    The p-values are those of "too little is let through".
    """
    guarantee = policy.guarantee
    if guarantee is None:
        return []
    questions = guarantee.questions or 0
    last = len(guarantee.path) - 1 if guarantee.chosen is None else guarantee.chosen + 1
    return [
        PathStep(
            number=index + 1,
            relevance=point.relevance,
            confidence=point.confidence,
            on_conflict=point.on_conflict,
            coverage=point.let_through / questions if questions else None,
            risk=point.errors / point.let_through if point.let_through else None,
            p_value=point.p_value,
            tested=index <= last,
            chosen=index == guarantee.chosen,
        )
        for index, point in enumerate(guarantee.path)
    ]
