"""Fit a policy whose risk is controlled to measured questions.

records ─┬─ a small part ─► path of operating points, from strict to lax ─┐ declared
         └─ the rest, one record per question ────────────────────────────┴─► tested in
            order by exact p-values ─► the laxest point that passes ─► Policy
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...guard.artefacts import Groups, Guarantee, bound_on_mean
from ...guard.contracts import ConflictBetween
from ...guard.decision import Route
from .. import CalibrationRecord
from ..records import Records, as_calibration_records
from ..statistics import SMALLEST_PROBABILITY, binomial_p_value
from ._cascade import fit_cascade
from ._statement import (
    NOT_COVERED,
    POPULATION,
    certified_statement,
    coverage_statement,
    loss_in_words,
    most_promising,
    outlook,
    say,
    stored_point,
    uncertified_statement,
)
from .certificate import (
    ROUTE_CODES,
    Certificate,
    Evidence,
    certify,
    evidence_of,
    groups_at,
    let_through_wrongly,
)
from .costs import fit_by_costs
from .fit import ALL_ROUTES, Fit, FitSettings, PolicyBinding, policy_at
from .leak import fit_leak, populations_of
from .learned_path import Forecast, forecast_path, from_surest
from .risks import (
    LEARN_PATH,
    Coverage,
    Leak,
    PathPoint,
    Point,
    Risk,
    RiskTarget,
    Uncertified,
    as_path,
    as_targets,
    learning_share,
)


def fit_policy(
    records: Iterable[object],
    risk: Risk,
    *,
    delta: float,
    path: Iterable[Point] | None = None,
    attempt: int | None = None,
    allowed_routes: Sequence[Route] = ALL_ROUTES,
    conflict_between: ConflictBetween = "memory",
    binding: PolicyBinding | None = None,
) -> Fit:
    """Fit the laxest policy whose risk stays under a bound, with confidence 1 − `delta`.

    With a number as `risk`, at most that share of the questions let through is answered
    wrongly. The thresholds are the laxest on a path fixed before the questions of the test
    were looked at, up to the first whose exact test fails. Records of one question are one.

    "Nothing qualifies" is a result: the policy then abstains from everything, and its
    guarantee says so and how many more questions would help.

    Args:
        records: of any kind that has the attributes of `CalibrationRecord`.
        risk: bound α in (0, 1) on the share of wrong answers among those let through; one or
            several `RiskTarget`s that must all hold; `Coverage(share)`; or `Leak(bound)`.
            `Costs(leak)` and `MaxAbstention(share)` give a policy without any guarantee.
        delta: probability δ that the promise fails by bad luck, in (0, 1).
        path: operating points from strict to lax, chosen without these records; all of
            them then take part in the test. None: a path is learned on a part of the
            questions (15 %, more of few), which takes no part in the test.
        attempt: which calibration on the same data this is, from 1, where the best of several
            may be kept: it is tested at its part of `delta` (`Guarantee.level_of`), so that the
            promise holds whichever is kept. None: it is the only one.
        allowed_routes: which routes the policy may take.
        conflict_between: what a record's `conflict` compares, as in `Policy`.
        binding: scorer, estimator and calibrators; without one no guard loads the policy.

    Returns:
        The policy with its guarantee, and the test that it rests on.

    Raises:
        InputError: an argument is out of its range.
        ValueError: a record is, or the arguments do not go together.

    Source: fixed-sequence testing, Angelopoulos et al. 2021 (Learn then Test).

    Example:
        >>> easy = [CalibrationRecord(f"easy {i}", 0.9, 0.5, True, False) for i in range(90)]
        >>> hard = [CalibrationRecord(f"hard {i}", 0.2, 0.5, False, False) for i in range(90)]
        >>> policy = fit_policy(easy + hard, risk=0.1, delta=0.1).policy
        >>> policy.route(0.9, 0.5).value, policy.route(0.2, 0.5).value
        ('follow_context', 'abstain')
    """
    bound = binding or PolicyBinding()
    settings = FitSettings(delta, attempt, tuple(allowed_routes), conflict_between, bound)
    if (bound.cascade is not None or bound.candidates > 1) and not isinstance(risk, Leak):
        raise ValueError("a cascade, or a choice of one of several scorers, is for a Leak")
    found = as_calibration_records(records, raw=isinstance(risk, Leak | Uncertified))
    if bound.cascade is not None and len(populations_of(found)) > 1:
        raise ValueError("a cascade is fitted to one kind of missing answers")
    if isinstance(risk, Leak | Coverage | Uncertified):
        if path is not None:
            raise ValueError("path does not go with Coverage or Leak, which declare their own")
        if isinstance(risk, Uncertified):
            fit = fit_by_costs(found, risk, settings)
        elif isinstance(risk, Leak):
            fit = (fit_leak if bound.cascade is None else fit_cascade)(found, risk, settings)
        else:
            fit = _fit_coverage(found, risk, settings)
    else:
        targets, points = as_targets(risk), None if path is None else as_path(path)
        if points is None:
            forecasts, units = _learned(found, targets, settings)
            points = from_surest(forecasts)
        else:
            units = CalibrationRecord.one_per_question(found)
        _require_allowed(points, settings)
        evidence = Evidence.of(units, settings.conflict_between)
        certificate = certify(evidence, points, targets, delta=settings.level)
        given = len({record.question_id for record in found})
        guarantee = _guarantee(certificate, settings, units, given)
        policy = policy_at(certificate, guarantee, found, settings)
        fit = Fit(policy, certificate, tuple(found), targets)
    return replace(fit, policy=fit.policy.sealed())


def _learned(
    records: Records, targets: Sequence[RiskTarget], settings: FitSettings
) -> tuple[list[Forecast], list[CalibrationRecord]]:
    """The path learned on a part of the questions, and one record of each of the others."""
    questions = len({record.question_id for record in records})
    learning, testing = CalibrationRecord.split(
        records, share=learning_share(LEARN_PATH, questions)
    )
    units = CalibrationRecord.one_per_question(testing)
    forecasts = forecast_path(
        learning,
        targets,
        delta=settings.level,
        questions=len({unit.unit for unit in units}),
        may_follow=settings.may_follow,
        may_answer=settings.may_answer,
        conflict_between=settings.conflict_between,
    )
    return forecasts, units


def _require_allowed(points: Sequence[PathPoint], settings: FitSettings) -> None:
    for point in points:
        if point.relevance is not None and not settings.may_follow:
            raise ValueError("the path follows contexts, which allowed_routes leaves out")
        if point.confidence is not None and not settings.may_answer:
            raise ValueError("the path answers from memory, which allowed_routes leaves out")
        needs_memory = point.on_conflict == "abstain" and settings.conflict_between != "passages"
        if needs_memory and point.confidence is None:
            raise ValueError("a conflict with memory needs a confidence threshold")


def _guarantee(
    certificate: Certificate,
    settings: FitSettings,
    units: Records,
    given: int,
) -> Guarantee:
    shown, more = certificate.best, None
    if shown is None:
        shown = most_promising(certificate)
        more, words = outlook(certificate, delta=settings.level, given=given)
        statement = uncertified_statement(shown, certificate.questions, words, settings.confidence)
    else:
        statement = certified_statement(
            shown, certificate.questions, len({u.unit for u in units}), settings.confidence
        )
    main = shown.main
    return Guarantee(
        statement=statement,
        risk=main.bound,
        loss=loss_in_words(shown.results),
        n=main.n,
        errors=min(main.n, math.ceil(main.loss - 1e-9)),
        method=f"fixed-sequence testing along {len(certificate.points)} declared points",
        risks=shown.results,
        path=tuple(stored_point(p) for p in certificate.points),
        more_questions=more,
        **_of_both(certificate, settings),
    )


def _of_both(certificate: Certificate, settings: FitSettings) -> dict[str, Any]:
    """What a guarantee says, whatever it is about."""
    best = certificate.best
    return {
        "delta": settings.delta,
        "certified": best is not None,
        "questions": certificate.questions,
        "routes": {} if best is None else dict(best.counts),
        "chosen": certificate.chosen,
        "population": POPULATION,
        "not_covered": NOT_COVERED,
        "attempt": settings.attempt,
    }


# Every further candidate widens the bound on the risk a little.
_CANDIDATES = 8


def _fit_coverage(records: Records, risk: Coverage, settings: FitSettings) -> Fit:
    """Fit a policy that lets at least `risk.share` of the questions through.

    With probability 1 − `delta` both hold: at least that share is let through, and of
    those at most the share is answered wrongly that the guarantee names. A few operating
    points are fixed on a part of the questions; on the rest they are tested from lax to
    strict for their coverage (at δ/2), and the risk of each is bounded by Clopper and
    Pearson (at δ/2, shared among them).
    """
    forecasts, units = _learned(records, (RiskTarget("selective", 0.5),), settings)
    path = _candidates(forecasts, risk.share)
    evidence = Evidence.of(units, settings.conflict_between)
    certificate = certify(evidence, path, (risk.target,), delta=settings.level / 2)
    shown = certificate.best or certificate.points[-1]
    by_group: Groups = ()
    if evidence.groups is not None:
        codes = evidence.route_codes([shown.point])
        wrong = let_through_wrongly(evidence, codes).astype(np.float64)
        [by_group] = groups_at(evidence.groups, codes != ROUTE_CODES.index(Route.ABSTAIN), wrong)
    errors, n = shown.wrong, shown.let_through
    bound = _upper_bound(errors, n, by_group, settings.level / (2 * len(certificate.points)))
    p_value = binomial_p_value(errors, n, bound)
    if by_group:
        p_value = max(p_value, bound_on_mean(by_group, bound))
    target, largest = RiskTarget("selective", bound), evidence.largest_group
    risks = (shown.main, evidence_of(target, n, float(errors), p_value, by_group, largest))
    guarantee = Guarantee(
        statement=coverage_statement(
            shown,
            certificate.questions,
            risk.share,
            None if certificate.best is None else bound,
            settings.confidence,
        ),
        risk=bound,
        loss=f"{say('loss.abstention')}; {say('loss.selective')}",
        n=n,
        errors=errors,
        method=f"fixed-sequence testing of the coverage at {len(certificate.points)} declared "
        "points, Clopper–Pearson bounds on their risk",
        risks=() if certificate.best is None else risks,
        path=tuple(
            stored_point(point).model_copy(update={"errors": point.wrong})
            for point in certificate.points
        ),
        **_of_both(certificate, settings),
    )
    policy = policy_at(certificate, guarantee, records, settings)
    return Fit(policy, certificate, tuple(records), risk)


def _candidates(path: Sequence[Forecast], coverage: float) -> tuple[PathPoint, ...]:
    """From the laxest point to the one that just reaches the coverage, a few in all."""
    laxest, _, _ = path[-1]
    enough = [point for point, share, _ in path if share >= coverage] or [laxest]
    # The strictest that will do come first in the path; beyond some slack none is wanted.
    near = enough[: max(1, len(enough) // 2)] if len(enough) > _CANDIDATES else enough
    step = max(1, -(-len(near) // (_CANDIDATES - 1)))
    return tuple(dict.fromkeys([laxest, *reversed(near[::step])]))


def _upper_bound(errors: int, n: int, by_group: Groups, level: float) -> float:
    """A one-sided bound on a rate at confidence 1 − `level`, in thousandths.

    Clopper and Pearson's; where questions share groups no lower than the smallest that Hoeffding
    and Bentkus' test of the groups' shares bears out, whose p-value falls as the bound rises.
    Rounded up, so that the words promise no more than was proved.
    """
    from scipy.stats import beta

    exact = 1.0 if errors >= n else float(beta.ppf(1.0 - level, errors + 1, n - errors))
    thousandths = math.ceil(exact * 1000 - 1e-9)
    if by_group:

        def holds(bound: int) -> bool:
            return bound == 1000 or bound_on_mean(by_group, bound / 1000) <= level

        thousandths += bisect_left(range(thousandths, 1001), True, key=holds)
    return min(thousandths / 1000, 1.0 - SMALLEST_PROBABILITY)
