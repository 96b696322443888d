"""Statements of a guarantee: for whom it holds, on what evidence, and what it does not cover."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from ...guard.artefacts import GuaranteedRisk, PolicyPoint, hoeffding_bentkus, sum_of_shares
from ...guard.decision import Route
from ...guard.files import table_beside
from ..statistics import binomial_p_value, questions_needed
from .certificate import Certificate, PointResult, counted_units

_TABLES: dict[str, Any] = table_beside(__file__, "statements.toml")


def say(name: str, **given: object) -> str:
    """A text of `statements.toml` by its name, such as `leak.cascade`, filled in."""
    found: Any = _TABLES
    for part in name.split("."):
        found = found[part]
    return " ".join(found.split()).format(**given)


POPULATION = say("population")
NOT_COVERED: tuple[str, ...] = tuple(_TABLES["not_covered"])
_ALWAYS = {"population": POPULATION, "not_covered": "; ".join(NOT_COVERED)}


def certified_statement(chosen: PointResult, questions: int, groups: int, confidence: str) -> str:
    """What holds, with the evidence.

    Args:
        chosen: the point of the path.
        questions: that were tested.
        groups: that they come from; a question without one is one by itself.
        confidence: how sure the promise is, in words.
    """
    return say(
        "targets.certified",
        sure=confidence,
        several=" (all together)" if len(chosen.results) > 1 else "",
        drawn=_drawn(questions, groups),
        promises="; ".join(_promise(result) for result in chosen.results),
        through=_share(chosen.let_through, questions),
        follow=_share(chosen.counts[Route.FOLLOW_CONTEXT], questions),
        answer=_share(chosen.counts[Route.ANSWER], questions),
        unbounded=_unbounded(chosen),
        **_ALWAYS,
    )


def coverage_statement(
    shown: PointResult, questions: int, coverage: float, bound: float | None, confidence: str
) -> str:
    """What holds where a coverage was asked for; `bound` is on the risk, None: nothing holds."""
    errors, n = shown.wrong, shown.let_through
    wanted = f"at least {percent(coverage)} of the questions are let through"
    seen = {"sure": confidence, "questions": questions, "n": n, "wanted": wanted}
    if bound is None:
        return say("coverage.uncertified", **seen)
    risk = f"at most {bound:.1%} are answered wrongly ({errors} of {n} were)"
    if bound > 1.0 - 1e-6:
        risk = f"nothing is promised about how many are answered wrongly ({errors} of {n} were)"
    drawn = _drawn(questions, counted_units(shown.main))
    return say("coverage.certified", drawn=drawn, risk=risk, **seen, **_ALWAYS)


def _drawn(questions: int, groups: int) -> str:
    name = "drawn_alone" if groups == questions else "drawn_grouped"
    return say(name, questions=questions, groups=groups)


def uncertified_statement(
    nearest: PointResult, questions: int, outlook: str, confidence: str
) -> str:
    """That nothing qualified, and what would help."""
    return say(
        "targets.uncertified",
        sure=confidence,
        questions=questions,
        plural="" if questions == 1 else "s",
        wanted="; ".join(map(_wanted, nearest.results)),
        outlook=outlook,
    )


def seen_of(result: GuaranteedRisk) -> str:
    """What was seen of one target at one point, as the rest of a sentence."""
    p_value = "> 0.99" if result.p_value > 0.99 else f"= {result.p_value:.2g}"
    if result.n == 0:
        return "lets no question through that counts"
    if result.kind == "cost":
        return f"(p {p_value}) costs {result.loss:.4g} over {result.n} questions"
    verb = "abstains from" if result.kind == "false_abstention" else "gets wrong"
    return f"(p {p_value}) {verb} {result.loss:.0f} of the {result.n} questions that count"


def loss_in_words(results: Sequence[GuaranteedRisk]) -> str:
    """What counts as going wrong."""
    return "; ".join(dict.fromkeys(map(_loss, results)))


def _loss(result: GuaranteedRisk) -> str:
    return say(f"loss.{result.kind}", **(result.losses or {}))


def percent(share: float | Decimal) -> str:
    """`share` in percent, with all its digits: a bound of 0.04 % must not read "0.0%"."""
    return f"{(100 * Decimal(str(share))).normalize():f}%"


def _promise(result: GuaranteedRisk) -> str:
    wanted = _wanted(result)
    if result.n == 0:
        return f"{wanted} (that route is closed)"
    if result.kind == "cost":
        return f"{wanted}, it was {result.loss / result.n:.3f} in calibration"
    seen = f"{result.loss:.0f} of {result.n} were in calibration, {result.loss / result.n:.1%}"
    return f"{wanted} ({seen})"


def _wanted(target: GuaranteedRisk) -> str:
    if target.kind == "cost":
        return f"the mean cost per question is at most {target.bound:g} ({_loss(target)})"
    return f"at most {percent(target.bound)} {say(f'subject.{target.kind}')}"


def _unbounded(chosen: PointResult) -> str:
    """Name the open routes that no target bounds."""
    kinds = {result.kind for result in chosen.results}
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


def _share(count: int, questions: int) -> str:
    return f"{count / questions:.1%}" if questions else "none"


def stored_point(found: PointResult) -> PolicyPoint:
    """A tested point, as a policy stores it."""
    return PolicyPoint(
        **asdict(found.point),
        p_value=min(1.0, found.p_value),
        let_through=found.let_through,
        errors=math.ceil(found.main.loss - 1e-9),
    )


_MOST_QUESTIONS = 1_000_000
# Points, the most promising first, that are asked how many questions they would need.
_ASKED_OF = 25
# The largest share of the questions that a path is ever learned on.
_MOST_LEARNING = 0.25


def outlook(certificate: Certificate, *, delta: float, given: int) -> tuple[int | None, str]:
    """Why no point was certified, and what to do about it.

    Args:
        certificate: in which no point was chosen.
        delta: at which it was tested.
        given: questions in all, those included that the path was learned on.

    Returns:
        About how many more questions would certify a point, if they go like these (None where
        that cannot be said, or no number would), and one or two sentences.
    """
    points = certificate.points
    if certificate.questions == 0:
        # One more than an error-free run needs, as in the certificate; and those for the path.
        needed = 1 + max(questions_needed(one.bound, delta) for one in points[0].results)
        wanted = math.ceil(needed / (1.0 - _MOST_LEARNING))
        return wanted, say("outlook.no_questions", more=wanted)
    if all(point.let_through == 0 for point in points):
        return None, say("outlook.nothing_through")
    nearest = say("outlook.nearest", evidence=seen_of(worst_result(most_promising(certificate))))
    tested = certificate.points[certificate.first :]
    if any(point.p_value <= delta for point in tested[1:]):
        # A laxer point than the one that failed would have passed.
        evidence = seen_of(worst_result(tested[0]))
        return None, say("outlook.stopped", evidence=evidence)
    first = sorted(points, key=_order)[:_ASKED_OF]
    totals = [_questions_for(point, certificate.questions, delta) for point in first]
    more = [
        max(1, math.ceil((total - certificate.questions) * given / certificate.questions))
        for total in totals
        if total is not None
    ]
    if min(more, default=math.inf) <= _MOST_QUESTIONS:
        grouped = any(result.groups for point in points for result in point.results)
        noun = "questions, on further groups," if grouped else "questions"
        return min(more), f"{nearest} {say('outlook.more', more=min(more), noun=noun)}"
    telling = [
        point
        for point in points
        if all(counted_units(r) >= questions_needed(r.bound, delta) for r in point.results)
    ]
    if not telling:
        least = _least_more(certificate, delta=delta, given=given)
        return least, f"{nearest} {say('outlook.at_least', more=least)}"
    hopeless = all(_is_too_risky(point, delta) for point in telling)
    why = say("outlook.too_risky" if hopeless else "outlook.unknown")
    return None, f"{nearest} {why}"


def most_promising(certificate: Certificate) -> PointResult:
    """The point that came nearest to being certified."""
    return min(certificate.points, key=_order)


def worst_result(point: PointResult) -> GuaranteedRisk:
    """The target that is furthest from being certified."""
    return max(point.results, key=lambda r: (r.p_value, r.loss / max(r.n, 1) / r.bound))


def _order(point: PointResult) -> tuple[float, float, int]:
    worst = worst_result(point)
    ratio = worst.loss / worst.n / worst.bound if worst.n else math.inf
    return point.p_value, ratio, -worst.n


def _least_more(certificate: Certificate, *, delta: float, given: int) -> int:
    """How many more questions it takes before any point could be certified at all."""
    questions = certificate.questions
    totals = [
        max(
            (1 + questions_needed(r.bound, delta)) * questions / counted_units(r)
            for r in point.results
        )
        for point in certificate.points
        if all(r.n for r in point.results)
    ]
    total = min(totals, default=2.0 * questions)
    return min(_MOST_QUESTIONS, max(1, math.ceil((total - questions) * given / questions)))


def _is_too_risky(point: PointResult, delta: float) -> bool:
    """Whether the questions show that a target is broken at this point."""
    from scipy.special import bdtrc

    return any(
        float(bdtrc(math.ceil(_errors(r) - 1e-9) - 1, counted_units(r), r.bound)) <= delta
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
        most = max(most, math.ceil(counted * questions / counted_units(result)))
    return most or None


def _errors(result: GuaranteedRisk) -> float:
    """What went wrong, in units that count once each."""
    return sum_of_shares(result.groups) if result.groups else result.loss


def _certifying_n(result: GuaranteedRisk, delta: float) -> int | None:
    """The fewest units that certify the target of `result` at its rate; None: no number."""
    bound = result.bound
    # Half an error more than seen: a fair guess at the true rate.
    rate = (_errors(result) + 0.5) / (counted_units(result) + 1.0)
    if rate >= bound:
        return None
    exact = set((result.losses or {}).values()) <= {0.0, 1.0}

    def enough(n: int) -> bool:
        if not exact:
            return hoeffding_bentkus(rate * n, n, bound) <= delta
        return binomial_p_value(math.ceil(rate * n), n, bound) <= delta

    low = questions_needed(bound, delta)
    while not enough(2 * low):
        low *= 2
        if 2 * low > _MOST_QUESTIONS:
            return None
    return low + bisect_left(range(low, 2 * low), True, key=enough)
