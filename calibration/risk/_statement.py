"""Statements of a guarantee: for whom it holds, on what evidence, and what it does not cover."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from ...guard.decision import Route
from ...guard.policy import GuaranteedRisk, PolicyPoint
from ._certificate import PointResult, TargetResult
from ._risks import LossTable, RiskTarget

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
