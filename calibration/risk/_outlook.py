"""Explain why nothing was certified, and what would help."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._statistics import binomial_p_value, questions_needed
from ._certificate import Certificate, PointResult, TargetResult
from ._statement import evidence_of
from ._tests import hoeffding_bentkus_p_value

_MOST_QUESTIONS = 1_000_000
# Points, the most promising first, that are asked how many questions they would need.
_ASKED_OF = 25
# The largest share of the questions that a path is ever learned on.
_MOST_LEARNING = 0.25


@dataclass(frozen=True, slots=True)
class Outlook:
    """What would help.

    Attributes:
        more_questions: about how many more would certify a point, if they go like these;
            None where that cannot be said, or no number would.
        words: one or two sentences.
    """

    more_questions: int | None
    words: str


def outlook(certificate: Certificate, *, delta: float, given: int) -> Outlook:
    """Why no point was certified, and what to do about it.

    Args:
        certificate: in which no point was chosen.
        delta: at which it was tested.
        given: questions in all, those included that the path was learned on.
    """
    points = certificate.points
    if certificate.questions == 0:
        return _without_questions(points[0], delta)
    if all(point.let_through == 0 for point in points):
        return Outlook(
            None,
            "No question was let through at any point: find out why the signals are missing, "
            "or why no route is open.",
        )
    seen = f"The most promising point {evidence_of(worst_result(most_promising(certificate)))}. "
    stopped = _stopped_early(certificate, delta)
    if stopped is not None:
        return Outlook(None, stopped)
    nearest = sorted(points, key=_order)[:_ASKED_OF]
    totals = [_questions_for(point, certificate.questions, delta) for point in nearest]
    more = [
        max(1, math.ceil((total - certificate.questions) * given / certificate.questions))
        for total in totals
        if total is not None
    ]
    if min(more, default=math.inf) <= _MOST_QUESTIONS:
        grouped = any(result.by_group is not None for point in points for result in point.results)
        noun = "questions, on further groups," if grouped else "questions"
        return Outlook(
            min(more), f"{seen}About {min(more)} more {noun} would be needed if they go like these."
        )
    telling = [point for point in points if _could_be_certified(point, delta)]
    if not telling:
        least = _least_more(certificate, delta=delta, given=given)
        return Outlook(
            least,
            f"{seen}At least about {least} more questions are needed even if not one of them goes "
            "wrong.",
        )
    if all(_is_too_risky(point, delta) for point in telling):
        return Outlook(
            None,
            f"{seen}Every point that lets enough questions through to judge it goes wrong too "
            "often: more questions would help only if the few with the highest signals go "
            "better. Allow more risk, or better the retrieval or the scorers.",
        )
    return Outlook(None, f"{seen}These questions cannot tell whether more would help.")


def most_promising(certificate: Certificate) -> PointResult:
    """The point that came nearest to being certified."""
    return min(certificate.points, key=_order)


def worst_result(point: PointResult) -> TargetResult:
    """The target that is furthest from being certified."""
    return max(point.results, key=lambda r: (r.p_value, r.loss / max(r.n, 1) / r.target.bound))


def _order(point: PointResult) -> tuple[float, float, int]:
    worst = worst_result(point)
    ratio = worst.loss / worst.n / worst.target.bound if worst.n else math.inf
    return point.p_value, ratio, -worst.n


def _without_questions(point: PointResult, delta: float) -> Outlook:
    # One more than an error-free run needs, as in the certificate; and those for the path.
    needed = 1 + max(questions_needed(result.target.bound, delta) for result in point.results)
    more = math.ceil(needed / (1.0 - _MOST_LEARNING))
    return Outlook(
        more, f"At least {more} questions are needed even if not one of them goes wrong."
    )


def _least_more(certificate: Certificate, *, delta: float, given: int) -> int:
    """How many more questions it takes before any point could be certified at all."""
    questions = certificate.questions
    totals = [
        max(
            (1 + questions_needed(r.target.bound, delta)) * questions / r.units
            for r in point.results
        )
        for point in certificate.points
        if all(r.n for r in point.results)
    ]
    total = min(totals, default=2.0 * questions)
    return min(_MOST_QUESTIONS, max(1, math.ceil((total - questions) * given / questions)))


def _stopped_early(certificate: Certificate, delta: float) -> str | None:
    """Words, where a laxer point than the one that failed would have passed."""
    tested = certificate.points[certificate.first :]
    later = [point for point in tested[1:] if point.p_value <= delta]
    if not later:
        return None
    return (
        f"The first point tested {evidence_of(worst_result(tested[0]))}, and testing ends at the "
        "first that fails: laxer points, some of which look better, may not be chosen after "
        "that. More questions, or a path of your own that begins there and is tested on new "
        "questions, may help."
    )


def _could_be_certified(point: PointResult, delta: float) -> bool:
    return all(r.units >= questions_needed(r.target.bound, delta) for r in point.results)


def _is_too_risky(point: PointResult, delta: float) -> bool:
    """Whether the questions show that a target is broken at this point."""
    from scipy.special import bdtrc

    return any(
        r.n > 0
        and r.loss > 0.0
        and float(bdtrc(math.ceil(_errors(r) - 1e-9) - 1, r.units, r.target.bound)) <= delta
        for r in point.results
    )


def _questions_for(point: PointResult, questions: int, delta: float) -> int | None:
    """How many questions would certify a point that go wrong as often as these, None: no number."""
    most = 0
    for result in point.results:
        if result.p_value <= delta:
            continue
        counted = _certifying_n(result, delta) if result.n else None
        if counted is None:
            return None
        most = max(most, math.ceil(counted * questions / result.units))
    return most or None


def _errors(result: TargetResult) -> float:
    """What went wrong, in units that count once each."""
    return result.loss if result.by_group is None else result.by_group.total


def _certifying_n(result: TargetResult, delta: float) -> int | None:
    """The fewest units that certify the target of `result` at its rate; None: no number."""
    bound, target = result.target.bound, result.target
    # Half an error more than seen: a fair guess at the true rate.
    rate = (_errors(result) + 0.5) / (result.units + 1.0)
    if rate >= bound:
        return None
    exact = target.kind != "cost" or target.losses.all_or_nothing

    def enough(n: int) -> bool:
        if not exact:
            return hoeffding_bentkus_p_value(rate * n, n, bound) <= delta
        return binomial_p_value(math.ceil(rate * n), n, bound) <= delta

    low, high = questions_needed(bound, delta), 2 * questions_needed(bound, delta)
    while not enough(high):
        low, high = high, high * 2
        if high > _MOST_QUESTIONS:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high
