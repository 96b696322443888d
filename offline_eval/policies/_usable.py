"""Which records a policy can be fitted to: all that a calibration rejects, in one place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from ...calibration.risk import Costs, Leak, MaxAbstention
from ...calibration.risk.risks import Risk
from ...guard.errors import InputError
from .records import CalibrationSet


def require_usable(sets: Sequence[CalibrationSet], risk: Risk) -> None:
    """Reject records that no policy can be fitted to.

    Args:
        sets: of one scorer, or of several to choose from.
        risk: that the policy is fitted to.

    Raises:
        InputError: names the first fault.
        ValueError: there are several scorers, and the risk is no leak.
    """
    if len(sets) > 1 and not isinstance(risk, Leak):
        raise ValueError("one of several scorers is chosen for a Leak")
    for one in sets:
        # One by one: some raise by themselves.
        for what, hint in chain(_of_scorer(one), _of_choice(one, sets), _of_risk(one, risk)):
            raise InputError(what, where=one.source, hint=hint)


def _of_scorer(one: CalibrationSet) -> Iterator[tuple[str, str]]:
    # On questions that it has seen in tuning a scorer is better than on others.
    if one.tuned_on is None:
        yield (
            "measured by a tuned scorer, and nothing says whether it was tuned on these questions",
            'give each record its "question" and name the tuned folder (--scorer DIR), or state '
            '"tuned_on": [] in the first line',
        )
    elif one.tuned_on:
        some = f"{len(one.tuned_on)} of its {one.questions} questions"
        yield (
            f"the scorer was tuned on {some}, e.g. {one.tuned_on[0][:80]!r}: there it looks too "
            "good",
            "measure other questions than `knowgate tune relevance` was given",
        )


def _of_choice(one: CalibrationSet, sets: Sequence[CalibrationSet]) -> Iterator[tuple[str, str]]:
    if len(sets) > 1 and one.cascade is not None:
        yield "is a cascade, which is not chosen among others", "calibrate it by itself"
    if _cases(one) != _cases(sets[0]):
        what = f"holds other questions or passages than {sets[0].name}"
        yield what, "measure the same questions with each scorer"


def _cases(one: CalibrationSet) -> set[tuple[str, str, tuple[str, str]]]:
    return {(r.question_id, r.measured_case, r.unit) for r in one.records}


def _of_risk(one: CalibrationSet, risk: Risk) -> Iterator[tuple[str, str]]:
    """What a leak, costs, or a cascade needs."""
    if one.cascade is not None:
        if not isinstance(risk, Leak):
            what = "has the verdicts of a costly scorer, and a cascade is calibrated to a leak"
            yield what, "promise a leak, or leave the costly scorer out"
        elif risk.missing == "both":
            what = "a cascade is calibrated to one kind of missing answers"
            yield what, "choose --missing unanswerable or --missing left-out"
        one.require_usual_aggregator()
    if isinstance(risk, Leak | Costs | MaxAbstention) and not one.leaves_out:
        what = "holds no questions with their source left out, which a leak is measured on"
        yield what, "name a run of the ookb suite"
