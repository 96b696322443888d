"""The other way round: how much must be let through, and how much can go wrong then."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ...guard.contracts import ConflictBetween
from ...guard.decision import Route
from ...guard.policy import Guarantee, GuaranteedRisk, Policy, PolicyPoint
from .. import SMALLEST_PROBABILITY, CalibrationEvidence, as_calibration_records, binomial_p_value
from ._certificate import Certificate, Evidence, PointResult, certify
from ._learned_path import forecast_path
from ._losses import RiskTarget, one_per_question, split_questions
from ._path import PathPoint
from ._policy_fit import ALL_ROUTES, PolicyBinding, learning_share, policy_at, require_settings
from ._statement import LOSSES, NOT_COVERED, POPULATION, percent_of
from ._tests import fixed_sequence

# Every further candidate widens the bound on the risk a little.
_CANDIDATES = 8


def fit_policy_for_coverage(
    records: Iterable[CalibrationEvidence],
    *,
    coverage: float,
    delta: float,
    seed: int = 0,
    allowed_routes: Sequence[Route] = ALL_ROUTES,
    conflict_between: ConflictBetween = "memory",
    binding: PolicyBinding | None = None,
) -> Policy:
    """A policy that lets at least a share of the questions through, with a bound on its risk.

    With probability 1 − `delta` both hold: at least `coverage` of the questions are let
    through, and of those at most a share is answered wrongly that the guarantee names. A
    few operating points are fixed on a part of the questions; on the rest they are
    tested from lax to strict for their coverage (at δ/2), and the risk of each is bounded
    by Clopper and Pearson (at δ/2, shared among them).

    Args:
        records: as for `fit_policy`.
        coverage: share to let through, in (0, 1).
        delta: probability δ that either fails by bad luck, in (0, 1).
        seed: of the split.
        allowed_routes: which routes the policy may take.
        conflict_between: what a record's `conflict` compares, as in `Policy`.
        binding: scorer, estimator and calibrators.

    Raises:
        ValueError: a record or an argument is out of its range.
    """
    allowed_routes = require_settings(delta, seed, allowed_routes, conflict_between)
    if not SMALLEST_PROBABILITY <= coverage <= 1 - SMALLEST_PROBABILITY:
        raise ValueError(f"coverage must be between 0 and 1, not {coverage}")
    found = as_calibration_records(records)
    learning, testing = split_questions(found, share=learning_share(found), seed=seed)
    units = one_per_question(testing, seed=seed)
    points = _candidates(
        [
            (forecast.point, forecast.coverage)
            for forecast in forecast_path(
                learning,
                (RiskTarget("selective", 0.5),),
                delta=delta,
                questions=len(units),
                may_follow=Route.FOLLOW_CONTEXT in allowed_routes,
                may_answer=Route.ANSWER in allowed_routes,
                conflict_between=conflict_between,
            )
        ],
        coverage,
    )
    certificate = certify(
        Evidence.of(units),
        points,
        (RiskTarget("selective", 0.5),),
        delta=delta,
        conflict_between=conflict_between,
    )
    p_values = [_coverage_p_value(p, len(units), coverage) for p in certificate.points]
    passed = fixed_sequence(p_values, delta / 2)
    chosen = passed[-1] if passed else None
    guarantee = _guarantee(certificate, p_values, chosen, coverage, delta)
    point = PathPoint(None, None) if chosen is None else points[chosen]
    binding = binding or PolicyBinding()
    return policy_at(point, guarantee, found, conflict_between, binding, allowed_routes, seed=seed)


def _candidates(path: Sequence[tuple[PathPoint, float]], coverage: float) -> list[PathPoint]:
    """From the laxest point to the one that just reaches the coverage, a few in all."""
    enough = [point for point, share in path if share >= coverage] or [path[-1][0]]
    # The strictest that will do come first in the path; beyond some slack none is wanted.
    near = enough[: max(1, len(enough) // 2)] if len(enough) > _CANDIDATES else enough
    step = max(1, -(-len(near) // (_CANDIDATES - 1)))
    kept = near[::step]
    laxest = path[-1][0]
    return list(dict.fromkeys([laxest, *reversed(kept)]))


def _coverage_p_value(point: PointResult, questions: int, coverage: float) -> float:
    """Of "more than 1 − coverage are abstained from"."""
    return binomial_p_value(questions - point.let_through, questions, 1.0 - coverage)


def _upper_bound(errors: int, n: int, level: float) -> float:
    """Clopper and Pearson's one-sided bound on a rate at confidence 1 − `level`."""
    from scipy.stats import beta

    return 1.0 if errors >= n else float(beta.ppf(1.0 - level, errors + 1, n - errors))


def _guarantee(
    certificate: Certificate,
    p_values: Sequence[float],
    chosen: int | None,
    coverage: float,
    delta: float,
) -> Guarantee:
    shown = certificate.points[-1 if chosen is None else chosen]
    errors, n = int(shown.results[0].loss), shown.let_through
    bound = _upper_bound(errors, n, delta / (2 * len(certificate.points)))
    # Rounded up, so that the words promise no more than was proved.
    bound = min(math.ceil(bound * 1000 - 1e-9) / 1000, 1.0 - SMALLEST_PROBABILITY)
    risks = (
        GuaranteedRisk(
            kind="abstention",
            bound=1.0 - coverage,
            n=certificate.questions,
            loss=certificate.questions - n,
            p_value=p_values[-1 if chosen is None else chosen],
        ),
        GuaranteedRisk(
            kind="selective",
            bound=bound,
            n=n,
            loss=errors,
            p_value=binomial_p_value(errors, n, bound),
        ),
    )
    return Guarantee(
        statement=_statement(certificate, chosen, errors, n, coverage, bound, delta),
        risk=bound,
        delta=delta,
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
                relevance=p.point.relevance,
                confidence=p.point.confidence,
                on_conflict=p.point.on_conflict,
                p_value=p_value,
                let_through=p.let_through,
                errors=int(p.results[0].loss),
            )
            for p, p_value in zip(certificate.points, p_values, strict=True)
        ),
        chosen=chosen,
        population=POPULATION,
        not_covered=NOT_COVERED,
    )


def _statement(
    certificate: Certificate,
    chosen: int | None,
    errors: int,
    n: int,
    coverage: float,
    bound: float,
    delta: float,
) -> str:
    questions = certificate.questions
    wanted = f"at least {percent_of(coverage)} of the questions are let through"
    sure = percent_of(round(1 - delta, 12))
    if chosen is None:
        return (
            f"No operating point certifies, with confidence {sure} from "
            f"{questions} calibration questions, that {wanted}; the laxest let {n} of them "
            "through. So this policy always abstains. Ask for less, or find out why signals "
            "are missing: a question whose signal fails is never let through."
        )
    risk = f"at most {bound:.1%} are answered wrongly ({errors} of {n} were)"
    if bound > 1.0 - 1e-6:
        risk = f"nothing is promised about how many are answered wrongly ({errors} of {n} were)"
    return (
        f"With confidence {sure} over the draw of the {questions} "
        f"calibration questions, taken as independent draws: {wanted} ({n} of {questions} were), "
        f"and of those {risk}. "
        f"It holds for {POPULATION}. It says nothing about {'; '.join(NOT_COVERED)}."
    )
