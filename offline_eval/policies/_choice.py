"""Choose one of several scorers that were calibrated on the same questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ...calibration.risk import Leak, LeakFold, Risk
from ...guard.decision import Route
from ...guard.errors import InputError
from ._rates import leak_rates_by
from ._records import CalibrationSet

# A `Calibrated`; its module imports this one.
_Calibrated = TypeVar("_Calibrated", bound=Any)


def require_candidates(sets: Sequence[CalibrationSet], risk: Risk) -> None:
    """Reject several scorers that none can be chosen of; one is never rejected.

    Raises:
        InputError: they did not measure the same questions, or one is a cascade.
        ValueError: the risk is no leak.
    """
    if len(sets) == 1:
        return
    if not isinstance(risk, Leak):
        raise ValueError("one of several scorers is chosen for a Leak")
    first, *others = sets
    for other in others:
        if _cases(other) != _cases(first):
            raise InputError(
                f"holds other questions or passages than {first.name}",
                where=other.source,
                hint="measure the same questions with each scorer",
            )
    if any(one.cascade is not None for one in sets):
        raise InputError(
            "has the verdicts of a costly scorer, and a cascade is not chosen among others",
            where=first.source,
            hint="calibrate the cascade by itself",
        )


def _cases(measured: CalibrationSet) -> set[tuple[str, str, tuple[str, str]]]:
    return {(r.question_id, r.measured_case, r.unit) for r in measured.records}


def best_of(found: Sequence[_Calibrated]) -> _Calibrated:
    """The calibration that lets most answerable questions pass, of equals the first.

    Its rates are those of the whole procedure: the choice is made anew for each fold. Their
    intervals hold those of the chosen policy, too.
    """
    certified = [one for one in found if one.policy.may_follow]
    if len(certified) < 2:
        return (certified or found)[0]
    passing = [_passing(one) for one in certified]
    best = certified[passing.index(max(passing))]
    if best.test:
        return best
    folds = LeakFold.chosen([one.folds for one in certified])
    rates = leak_rates_by(folds, best.measured.beside).widened(best.leak_rates)
    return replace(best, leak_rates=rates)


def _passing(found: Any) -> int:
    """How many of the answerable questions that were fitted on pass."""
    policy = found.policy
    return sum(
        policy.route(policy.relevance_calibrator.apply(record.relevance), None)
        is Route.FOLLOW_CONTEXT
        for record in found.certify
        if record.is_answerable and record.relevance is not None
    )
