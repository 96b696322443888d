"""From measured questions to a policy whose risk is controlled.

records ─┬─ a small part ─► path of operating points, from sure to lax ─┐ declared
         └─ the rest, one record per question ──────────────────────────┴─► tested in
            order by exact p-values ─► the laxest point that passes ─► Policy
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Real

import numpy as np

from ...guard.contracts import ConflictBetween
from ...guard.decision import Route
from ...guard.policy import (
    Calibrator,
    Fingerprint,
    Guarantee,
    GuaranteedRisk,
    IdentityCalibrator,
    Policy,
    PolicyPoint,
)
from .. import (
    SMALLEST_PROBABILITY,
    CalibrationEvidence,
    CalibrationRecord,
    as_calibration_records,
    calibration_records_sha256,
)
from ..monitoring import calibration_histograms
from ._certificate import Certificate, Evidence, PointResult, TargetResult, certify
from ._learned_path import learn_path
from ._losses import RiskKind, RiskTarget, one_per_question, split_questions
from ._outlook import most_promising, outlook
from ._path import PathPoint, Point, as_path
from ._statement import (
    NOT_COVERED,
    POPULATION,
    certified_statement,
    loss_in_words,
    uncertified_statement,
)

UNNAMED = Fingerprint(kind="unnamed")
ALL_ROUTES = (Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN)
# Enough to tell a calibrated signal from another; the rest is worth more in the test.
_LEARNING_SHARE, _FEW, _MOST_OF_FEW = 0.15, 25, 0.25


@dataclass(frozen=True, slots=True)
class PolicyBinding:
    """What a policy is bound to besides its thresholds.

    Attributes:
        scorer: fingerprint of the relevance scorer. The default names none: no guard
            loads such a policy, but `Policy.route` works.
        estimator: fingerprint of the confidence estimator, if one took part.
        aggregator: how passage scores became one value per question.
        relevance_calibrator: made the records' relevance of raw values, on other data.
        confidence_calibrator: likewise.
        created_by: program and version.
    """

    scorer: Fingerprint = UNNAMED
    estimator: Fingerprint | None = None
    aggregator: str = "max"
    relevance_calibrator: Calibrator = field(default_factory=IdentityCalibrator)
    confidence_calibrator: Calibrator = field(default_factory=IdentityCalibrator)
    created_by: str = ""


def fit_policy(
    records: Iterable[CalibrationEvidence],
    *,
    risk: float | RiskTarget | Sequence[RiskTarget],
    delta: float,
    path: Iterable[Point] | None = None,
    seed: int = 0,
    per_route: bool = False,
    allowed_routes: Sequence[Route] = ALL_ROUTES,
    conflict_between: ConflictBetween = "memory",
    binding: PolicyBinding | None = None,
) -> Policy:
    """A policy that lets through as much as it can while its risk stays under a bound.

    With probability 1 − `delta` over the draw of the questions, at most `risk` of the
    questions that the policy lets through are answered wrongly. The thresholds are the
    laxest on a path that was fixed before the questions of the test were looked at, up to
    the first whose exact test fails. All records of one question count as one.

    "Nothing qualifies" is a result: the policy then abstains from everything, and its
    guarantee says so and how many more questions would help.

    Args:
        records: of any kind that has the attributes of `CalibrationRecord`; relevance and
            confidence are probabilities in [0, 1], on the scale of `Policy.route`.
        risk: bound α on the share of wrong answers among those let through, in (0, 1); or
            several bounds that must all hold.
        delta: probability δ that the promise fails by bad luck, in (0, 1).
        path: operating points from strict to lax, chosen without these records; all of
            them then take part in the test. None: a path is learned on a part of the
            questions (15 %, more of few), which takes no part in the test.
        seed: of the split, and of which record speaks for a question that has several.
        per_route: the bound holds for followed contexts and for answers from memory each,
            not only for both together.
        allowed_routes: which routes the policy may take.
        conflict_between: what a record's `conflict` compares, as in `Policy`.
        binding: scorer, estimator and calibrators; without one no guard loads the policy.

    Returns:
        The policy, with its guarantee and what it rests on.

    Raises:
        ValueError: a record or an argument is out of its range.

    Source: fixed-sequence testing, Angelopoulos et al. 2021 (Learn then Test).

    Example:
        >>> easy = [CalibrationRecord(f"easy {i}", 0.9, 0.5, True, False) for i in range(90)]
        >>> hard = [CalibrationRecord(f"hard {i}", 0.2, 0.5, False, False) for i in range(90)]
        >>> policy = fit_policy(easy + hard, risk=0.1, delta=0.1)
        >>> policy.route(0.9, 0.5).value, policy.route(0.2, 0.5).value
        ('follow_context', 'abstain')
    """
    targets = _targets(risk, per_route)
    allowed_routes = require_settings(delta, seed, allowed_routes, conflict_between)
    binding = binding or PolicyBinding()
    found = as_calibration_records(records)
    if path is None:
        learning, testing = split_questions(found, share=learning_share(found), seed=seed)
        units = one_per_question(testing, seed=seed)
        points = learn_path(
            learning,
            targets,
            delta=delta,
            questions=len(units),
            may_follow=Route.FOLLOW_CONTEXT in allowed_routes,
            may_answer=Route.ANSWER in allowed_routes,
            conflict_between=conflict_between,
        )
    else:
        units = one_per_question(found, seed=seed)
        points = as_path(path)
    _require_allowed(points, allowed_routes, conflict_between)
    certificate = certify(
        Evidence.of(units), points, targets, delta=delta, conflict_between=conflict_between
    )
    given = len({record.question_id for record in found})
    guarantee = _guarantee(certificate, targets, delta, units, given)
    point = PathPoint(None, None)
    if certificate.chosen is not None:
        point = certificate.points[certificate.chosen].point
    return policy_at(point, guarantee, found, conflict_between, binding, allowed_routes, seed=seed)


def _targets(
    risk: float | RiskTarget | Sequence[RiskTarget], per_route: bool
) -> tuple[RiskTarget, ...]:
    if isinstance(risk, Real) and not isinstance(risk, bool):
        kinds: tuple[RiskKind, ...] = ("selective",)
        if per_route:
            kinds = ("selective", "follow", "answer")
        return tuple(RiskTarget(kind, float(risk)) for kind in kinds)
    targets = (risk,) if isinstance(risk, RiskTarget) else tuple(risk)  # type: ignore[arg-type]
    if not targets or not all(isinstance(target, RiskTarget) for target in targets):
        raise ValueError("risk must be a number in (0, 1), or one RiskTarget or more")
    if per_route:
        raise ValueError("name the targets 'follow' and 'answer' instead of per_route")
    return targets


def require_settings(
    delta: float, seed: int, allowed_routes: Iterable[Route], conflict_between: ConflictBetween
) -> tuple[Route, ...]:
    """The allowed routes, checked with the rest.

    Raises:
        ValueError: something is out of its range.
    """
    if not SMALLEST_PROBABILITY <= delta <= 1 - SMALLEST_PROBABILITY:
        raise ValueError(f"delta must be between 0 and 1, not {delta}")
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed must be a whole number, 0 or more, not {seed!r}")
    if conflict_between not in ("memory", "passages", "both"):
        raise ValueError(
            f"conflict_between must be 'memory', 'passages' or 'both', not {conflict_between!r}"
        )
    if isinstance(allowed_routes, str):
        raise ValueError("allowed_routes must be a sequence of routes")
    return tuple(Route(route) for route in allowed_routes)


def _require_allowed(
    points: Sequence[PathPoint], routes: Sequence[Route], conflict_between: ConflictBetween
) -> None:
    for point in points:
        if point.relevance is not None and Route.FOLLOW_CONTEXT not in routes:
            raise ValueError("the path follows contexts, which allowed_routes leaves out")
        if point.confidence is not None and Route.ANSWER not in routes:
            raise ValueError("the path answers from memory, which allowed_routes leaves out")
        needs_memory = point.on_conflict == "abstain" and conflict_between != "passages"
        if needs_memory and point.confidence is None:
            raise ValueError("a conflict with memory needs a confidence threshold")


def learning_share(records: Sequence[CalibrationRecord]) -> float:
    """Share of the questions that the path is learned on."""
    questions = max(1, len({record.question_id for record in records}))
    return min(max(_LEARNING_SHARE, _FEW / questions), _MOST_OF_FEW)


def _guarantee(
    certificate: Certificate,
    targets: Sequence[RiskTarget],
    delta: float,
    units: Sequence[CalibrationRecord],
    given: int,
) -> Guarantee:
    chosen = None if certificate.chosen is None else certificate.points[certificate.chosen]
    more = None
    if chosen is None:
        shown = most_promising(certificate)
        found = outlook(certificate, delta=delta, given=given)
        more = found.more_questions
        statement = uncertified_statement(targets, certificate.questions, delta, found.words)
    else:
        shown = chosen
        statement = certified_statement(chosen, certificate.questions, delta, _groups(units))
    main = shown.main
    return Guarantee(
        statement=statement,
        risk=main.target.bound,
        delta=delta,
        certified=chosen is not None,
        loss=loss_in_words(targets),
        n=main.n,
        errors=min(main.n, math.ceil(main.loss - 1e-9)),
        method=f"fixed-sequence testing along {len(certificate.points)} declared points",
        questions=certificate.questions,
        routes={} if chosen is None else dict(chosen.counts),
        risks=tuple(_stored(r) for r in shown.results),
        path=tuple(_point(p) for p in certificate.points),
        chosen=certificate.chosen,
        population=POPULATION,
        not_covered=NOT_COVERED,
        more_questions=more,
    )


def _groups(units: Sequence[CalibrationRecord]) -> int | None:
    """How many groups the questions come from; None where some name none."""
    named = {unit.group for unit in units}
    return None if "" in named or not named else len(named)


def _stored(result: TargetResult) -> GuaranteedRisk:
    target = result.target
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
    )


def _point(found: PointResult) -> PolicyPoint:
    return PolicyPoint(
        relevance=found.point.relevance,
        confidence=found.point.confidence,
        on_conflict=found.point.on_conflict,
        p_value=min(1.0, found.p_value),
        let_through=found.let_through,
        errors=math.ceil(found.main.loss - 1e-9),
    )


def policy_at(
    point: PathPoint,
    guarantee: Guarantee,
    records: Sequence[CalibrationRecord],
    conflict_between: ConflictBetween,
    binding: PolicyBinding,
    allowed_routes: Sequence[Route],
    *,
    seed: int = 0,
) -> Policy:
    """The policy that serves by one operating point, with histograms of its questions."""
    checks = point.on_conflict == "abstain"
    policy = Policy(
        created_by=binding.created_by,
        scorer=binding.scorer,
        estimator=binding.estimator,
        aggregator=binding.aggregator,
        relevance_calibrator=binding.relevance_calibrator,
        confidence_calibrator=binding.confidence_calibrator,
        relevance_threshold=point.relevance,
        confidence_threshold=point.confidence,
        allowed_routes=tuple(dict.fromkeys((*allowed_routes, Route.ABSTAIN))),
        check_conflict=checks,
        conflict_between=conflict_between if checks else "memory",
        on_conflict="abstain" if checks else "follow_context",
        guarantee=guarantee,
        calibration_set_sha256=calibration_records_sha256(records),
    )
    # Live questions come one by one: variants of one would count as evidence about several.
    questions = one_per_question(records, seed=seed)
    return policy.model_copy(update={"histograms": calibration_histograms(policy, questions)})
