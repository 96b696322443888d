"""Fit a policy to the share that must be let through, with a bound on the risk then."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from ...guard.decision import Route
from ...guard.policy import Guarantee, PolicyPoint
from .. import CalibrationRecord
from .._statistics import SMALLEST_PROBABILITY, binomial_p_value
from ._certificate import (
    ROUTE_CODES,
    Certificate,
    Evidence,
    GroupCounts,
    TargetResult,
    certify,
    let_through_wrongly,
)
from ._fit import Fit, FitSettings, policy_at
from ._learned_path import Forecast, forecast_path
from ._path import PathPoint
from ._risks import LEARN_PATH, Coverage, RiskTarget
from ._statement import LOSSES, NOT_COVERED, POPULATION, drawn, percent_of, stored_risk

# Every further candidate widens the bound on the risk a little.
_CANDIDATES = 8


def fit_coverage(
    records: Sequence[CalibrationRecord], risk: Coverage, settings: FitSettings
) -> Fit:
    """Fit a policy that lets at least `risk.share` of the questions through.

    With probability 1 − `delta` both hold: at least that share is let through, and of
    those at most the share is answered wrongly that the guarantee names. A few operating
    points are fixed on a part of the questions; on the rest they are tested from lax to
    strict for their coverage (at δ/2), and the risk of each is bounded by Clopper and
    Pearson (at δ/2, shared among them).
    """
    questions = len({record.question_id for record in records})
    learning, testing = CalibrationRecord.split(records, share=LEARN_PATH.of(questions))
    units = CalibrationRecord.one_per_question(testing)
    forecasts = forecast_path(
        learning,
        (RiskTarget("selective", 0.5),),
        delta=settings.level,
        questions=len({unit.unit for unit in units}),
        may_follow=settings.may_follow,
        may_answer=settings.may_answer,
        conflict_between=settings.conflict_between,
    )
    path = _candidates(forecasts, risk.share)
    certificate = certify(
        Evidence.of(units),
        path,
        (risk.target,),
        delta=settings.level / 2,
        conflict_between=settings.conflict_between,
    )
    shown = certificate.points[-1 if certificate.chosen is None else certificate.chosen]
    by_group = _wrong_by_group(Evidence.of(units), shown.point, settings)
    guarantee = _guarantee(certificate, risk, by_group, settings)
    chosen = None if certificate.chosen is None else path[certificate.chosen]
    policy = policy_at(chosen, guarantee, records, settings)
    return Fit(policy, certificate, path, tuple(records), risk)


def _candidates(path: Sequence[Forecast], coverage: float) -> tuple[PathPoint, ...]:
    """From the laxest point to the one that just reaches the coverage, a few in all."""
    laxest = path[-1].point
    enough = [found.point for found in path if found.coverage >= coverage] or [laxest]
    # The strictest that will do come first in the path; beyond some slack none is wanted.
    near = enough[: max(1, len(enough) // 2)] if len(enough) > _CANDIDATES else enough
    step = max(1, -(-len(near) // (_CANDIDATES - 1)))
    return tuple(dict.fromkeys([laxest, *reversed(near[::step])]))


def _wrong_by_group(
    evidence: Evidence, point: PathPoint, settings: FitSettings
) -> GroupCounts | None:
    """How each group's questions go that the point lets through; None where none share one."""
    if evidence.groups is None:
        return None
    codes = evidence.route_codes([point], conflict_between=settings.conflict_between)
    through = codes != ROUTE_CODES.index(Route.ABSTAIN)
    wrong = let_through_wrongly(evidence, codes).astype(np.float64)
    return GroupCounts.of(evidence.groups, through, wrong)[0]


def _upper_bound(errors: int, n: int, by_group: GroupCounts | None, level: float) -> float:
    """A one-sided bound on a rate at confidence 1 − `level`, in thousandths.

    Clopper and Pearson's; where questions share groups no lower than the smallest that Hoeffding
    and Bentkus' test of the groups' shares bears out, whose p-value falls as the bound rises.
    Rounded up, so that the words promise no more than was proved.
    """
    from scipy.stats import beta

    exact = 1.0 if errors >= n else float(beta.ppf(1.0 - level, errors + 1, n - errors))
    thousandths = math.ceil(exact * 1000 - 1e-9)
    if by_group is not None:

        def holds(bound: int) -> bool:
            return bound == 1000 or by_group.bound_on_mean(bound / 1000) <= level

        thousandths += bisect_left(range(thousandths, 1001), True, key=holds)
    return min(thousandths / 1000, 1.0 - SMALLEST_PROBABILITY)


def _guarantee(
    certificate: Certificate, risk: Coverage, by_group: GroupCounts | None, settings: FitSettings
) -> Guarantee:
    chosen = certificate.chosen
    shown = certificate.points[-1 if chosen is None else chosen]
    errors, n = shown.wrong, shown.let_through
    bound = _upper_bound(errors, n, by_group, settings.level / (2 * len(certificate.points)))
    p_value = binomial_p_value(errors, n, bound)
    if by_group is not None:
        p_value = max(p_value, by_group.bound_on_mean(bound))
    selective = TargetResult(RiskTarget("selective", bound), n, float(errors), p_value, by_group)
    risks = (stored_risk(shown.main), stored_risk(selective))
    return Guarantee(
        statement=_statement(certificate, risk.share, bound, settings),
        risk=bound,
        delta=settings.delta,
        certified=chosen is not None,
        loss=f"{LOSSES['abstention']}; {LOSSES['selective']}",
        n=n,
        errors=errors,
        method=f"fixed-sequence testing of the coverage at {len(certificate.points)} declared "
        "points, Clopper–Pearson bounds on their risk",
        questions=certificate.questions,
        routes={} if chosen is None else dict(shown.counts),
        risks=() if chosen is None else risks,
        path=tuple(
            PolicyPoint(
                relevance=found.point.relevance,
                confidence=found.point.confidence,
                on_conflict=found.point.on_conflict,
                p_value=found.p_value,
                let_through=found.let_through,
                errors=found.wrong,
            )
            for found in certificate.points
        ),
        chosen=chosen,
        population=POPULATION,
        not_covered=NOT_COVERED,
        attempt=settings.attempt,
    )


def _statement(
    certificate: Certificate, coverage: float, bound: float, settings: FitSettings
) -> str:
    questions = certificate.questions
    shown = certificate.points[-1 if certificate.chosen is None else certificate.chosen]
    errors, n = shown.wrong, shown.let_through
    wanted = f"at least {percent_of(coverage)} of the questions are let through"
    sure = settings.confidence
    if certificate.chosen is None:
        return (
            f"No operating point certifies, with {sure} from "
            f"{questions} calibration questions, that {wanted}; the laxest let {n} of them "
            "through. So this policy always abstains. Ask for less, or find out why signals "
            "are missing: a question whose signal fails is never let through."
        )
    risk = f"at most {bound:.1%} are answered wrongly ({errors} of {n} were)"
    if bound > 1.0 - 1e-6:
        risk = f"nothing is promised about how many are answered wrongly ({errors} of {n} were)"
    return (
        f"With {sure} over the draw of {drawn(questions, shown.main.units)}: {wanted} "
        f"({n} of {questions} were), and of those {risk}. "
        f"It holds for {POPULATION}. It says nothing about {'; '.join(NOT_COVERED)}."
    )
