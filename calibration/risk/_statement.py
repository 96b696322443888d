"""Statements of a guarantee: for whom it holds, on what evidence, and what it does not cover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from ...guard.artefacts import GuaranteedRisk, PolicyPoint
from ...guard.decision import Route
from ..statistics import binomial_p_value, questions_needed
from .certificate import Certificate, PointResult, TargetResult, hoeffding_bentkus_p_value
from .risks import LossTable, RiskTarget

POPULATION = (
    "new questions drawn like the calibration questions, one by one, with the same knowledge "
    "base, retriever, scorer, confidence estimator, language model and prompts, and judged right "
    "or wrong in the same way"
)
NOT_COVERED = (
    "questions from another domain, or a knowledge base that has changed",
    "another language model, prompt or retriever",
    "another relevance scorer or confidence estimator (the guard rejects those)",
    "any single question, or a chosen kind of question: the bound is an average over all",
    "a choice among calibrations that were not counted as attempts: keeping the best voids it",
)
_SUBJECTS = {
    "selective": "of the questions that this policy lets through are answered wrongly",
    "follow": "of the questions that follow the context are answered wrongly",
    "answer": "of the questions that are answered from memory are answered wrongly",
    "false_abstention": (
        "of the questions that the context or memory would have answered rightly are abstained from"
    ),
    "abstention": "of all questions are abstained from",
}
LOSSES = {
    "selective": "a question is let through and answered wrongly",
    "follow": "a context is followed to a wrong answer",
    "answer": "a wrong answer is given from memory",
    "false_abstention": "a question that could have been answered rightly is abstained from",
    "abstention": "a question is abstained from",
}


def certified_statement(chosen: PointResult, questions: int, groups: int, confidence: str) -> str:
    """What holds, with the evidence.

    Args:
        chosen: the point of the path.
        questions: that were tested.
        groups: that they come from; a question without one is one by itself.
        confidence: how sure the promise is, in words.
    """
    promises = "; ".join(_promise(result) for result in chosen.results)
    follow, answer = chosen.counts[Route.FOLLOW_CONTEXT], chosen.counts[Route.ANSWER]
    several = " (all together)" if len(chosen.results) > 1 else ""
    return (
        f"With {confidence}{several} over the draw of {drawn(questions, groups)}: {promises}. "
        f"In calibration it let {_share(chosen.let_through, questions)} of the questions "
        f"through: {_share(follow, questions)} by following the context, "
        f"{_share(answer, questions)} from memory.{_unbounded(chosen)} It holds for {POPULATION}. "
        f"It says nothing about {'; '.join(NOT_COVERED)}."
    )


def drawn(questions: int, groups: int) -> str:
    """What the evidence is a sample of."""
    if groups == questions:
        return f"the {questions} calibration questions, taken as independent draws"
    return (
        f"the {groups} groups of {questions} calibration questions (the groups, not their "
        "questions, taken as independent draws), of questions and of groups that count once each"
    )


def uncertified_statement(
    targets: Sequence[RiskTarget], questions: int, outlook: str, confidence: str
) -> str:
    """That nothing qualified, and what would help."""
    wanted = "; ".join(_wanted(target) for target in targets)
    return (
        f"No operating point on the declared path certifies, with {confidence}, from "
        f"{questions} calibration "
        f"question{'' if questions == 1 else 's'}, that {wanted}. So this policy always "
        f"abstains. {outlook}"
    )


def evidence_of(result: TargetResult) -> str:
    """What was seen of one target at one point, as the rest of a sentence."""
    p_value = "> 0.99" if result.p_value > 0.99 else f"= {result.p_value:.2g}"
    if result.n == 0:
        return "lets no question through that counts"
    if result.target.kind == "cost":
        return f"(p {p_value}) costs {result.loss:.4g} over {result.n} questions"
    verb = "abstains from" if result.target.kind == "false_abstention" else "gets wrong"
    return f"(p {p_value}) {verb} {result.loss:.0f} of the {result.n} questions that count"


def loss_in_words(targets: Sequence[RiskTarget]) -> str:
    """What counts as going wrong."""
    return "; ".join(
        dict.fromkeys(_costs(t.losses) if t.kind == "cost" else LOSSES[t.kind] for t in targets)
    )


def percent_of(share: float) -> str:
    """`share` in percent, with all its digits."""
    return percent(Decimal(str(share)))


def percent(share: Decimal) -> str:
    """All digits: a bound of 0.04 % must not read "0.0%"."""
    return f"{(100 * share).normalize():f}%"


def _promise(result: TargetResult) -> str:
    wanted = _wanted(result.target)
    if result.n == 0:
        return f"{wanted} (that route is closed)"
    if result.target.kind == "cost":
        return f"{wanted}, it was {result.loss / result.n:.3f} in calibration"
    seen = f"{result.loss:.0f} of {result.n} were in calibration, {result.loss / result.n:.1%}"
    return f"{wanted} ({seen})"


def _wanted(target: RiskTarget) -> str:
    if target.kind == "cost":
        return f"the mean cost per question is at most {target.bound:g} ({_costs(target.losses)})"
    return f"at most {percent_of(target.bound)} {_subject(target)}"


def _unbounded(chosen: PointResult) -> str:
    """Name the open routes that no target bounds."""
    kinds = {result.target.kind for result in chosen.results}
    if kinds & {"selective", "cost"}:
        return ""
    found = []
    if chosen.point.relevance is not None and "follow" not in kinds:
        found.append("follow the context")
    if chosen.point.confidence is not None and "answer" not in kinds:
        found.append("are answered from memory")
    if not found:
        return ""
    return f" Nothing is promised of questions that {' or '.join(found)}."


def _subject(target: RiskTarget) -> str:
    return _costs(target.losses) if target.kind == "cost" else _SUBJECTS[target.kind]


def _costs(losses: LossTable) -> str:
    return (
        f"a wrong answer from a context costs {losses.wrong_follow:g}, one from memory "
        f"{losses.wrong_answer:g}, abstaining needlessly {losses.false_abstention:g}"
    )


def _share(count: int, questions: int) -> str:
    return f"{count / questions:.1%}" if questions else "none"


def stored_risk(result: TargetResult) -> GuaranteedRisk:
    """The evidence about one bound, as a policy stores it."""
    target = result.target
    groups = result.by_group if result.by_group and result.by_group.groups else None
    return GuaranteedRisk(
        kind=target.kind,
        bound=target.bound,
        n=result.n,
        loss=result.loss,
        p_value=result.p_value,
        losses={
            "wrong_follow": target.losses.wrong_follow,
            "wrong_answer": target.losses.wrong_answer,
            "false_abstention": target.losses.false_abstention,
        }
        if target.kind == "cost"
        else None,
        groups=() if groups is None else groups.counts,
        largest_group=0 if groups is None else groups.largest,
    )


def stored_point(found: PointResult) -> PolicyPoint:
    """A tested point, as a policy stores it."""
    return PolicyPoint(
        relevance=found.point.relevance,
        confidence=found.point.confidence,
        on_conflict=found.point.on_conflict,
        p_value=min(1.0, found.p_value),
        let_through=found.let_through,
        errors=math.ceil(found.main.loss - 1e-9),
    )


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
