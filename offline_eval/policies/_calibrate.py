"""From measured cases to a policy with a guarantee, in three parts that share no question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..._version import __version__
from ...calibration import CalibrationRecord, CalibratorChoice
from ...calibration.risk import (
    Evidence,
    LossTable,
    PolicyBinding,
    RiskTarget,
    certify,
    fit_policy,
    fit_policy_for_coverage,
    learn_path,
    one_per_question,
    split_questions,
)
from ...guard.contracts import ConflictBetween
from ...guard.decision import Route
from ...guard.errors import InputError
from ...guard.policy import Fingerprint, Policy
from ._fit import Calibrated, calibration_records, calibrator_of, choose_calibrators, learning_share
from ._quality import PathStep, steps_of_certificate, steps_of_coverage
from ._records import MeasuredCase, MeasuredCases, outcomes_under, rates_of
from ._view import UNNAMED, cautions, limits

_ALL_ROUTES = (Route.FOLLOW_CONTEXT, Route.ANSWER, Route.ABSTAIN)


def calibrate_records(
    measured: MeasuredCases,
    *,
    delta: float,
    risk: float | Sequence[RiskTarget] | None = None,
    coverage: float | None = None,
    share: float = 0.8,
    seed: int = 0,
    loss: Literal["selective"] | LossTable = "selective",
    per_route: bool = False,
    allowed_routes: Sequence[Route] = _ALL_ROUTES,
) -> Calibrated:
    """A policy that lets through as much as it can while its risk stays under a bound.

    The questions are dealt at random to three parts: on the first, calibrators are
    chosen and the path of thresholds is declared; on the second it is tested; the third
    is kept back for reporting.

    Args:
        measured: cases on the scorer's own scale, and what measured them.
        delta: probability δ that the promise fails by bad luck, in (0, 1).
        risk: bound α in (0, 1) on what `loss` says, or several bounds.
        coverage: instead, the share of questions to let through, in (0, 1); the bound is
            then what can be certified for it.
        share: of the questions for the first two parts, in (0, 1].
        seed: of the deal and all else that is drawn, 0 or more.
        loss: `selective`: what is let through is answered wrongly; or what mishaps cost.
        per_route: the bound holds for each route as well.
        allowed_routes: which routes the policy may take; without any confidence it never
            answers from memory.

    Raises:
        InputError: too few questions to split, or no signal in them.
        ValueError: an argument is out of its range, or both or none of `risk` and
            `coverage` are given.
    """
    if (risk is None) == (coverage is None):
        raise ValueError("give either risk or coverage")
    # Which record speaks for its question must not hang on the order of a file.
    ordered = tuple(sorted(measured.cases, key=lambda case: (case.question_id, case.case)))
    measured = replace(measured, cases=ordered)
    learn, certifying, test = _parts(measured, share, seed)
    choices = choose_calibrators(learn, seed=seed)
    asked = _asked(measured, choices, delta, seed, allowed_routes)
    records = asked.records(certifying)
    if risk is None:
        assert coverage is not None
        policy, steps = _for_coverage(records, coverage, asked)
    else:
        targets = _targets(risk, loss, per_route)
        policy, steps = _for_risk(asked.records(learn), records, targets, asked)
    return Calibrated(
        policy=policy,
        measured=measured,
        learn=tuple(learn),
        certify=tuple(certifying),
        test=tuple(test),
        choices=choices,
        steps=tuple(steps),
        rates=rates_of(outcomes_under(policy, test), seed=seed) if test else None,
        coverage=coverage,
        seed=seed,
        warnings=tuple(cautions(measured, certifying, policy, share=share)),
        not_promised=tuple(limits(policy)),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """What both ways of fitting share."""

    delta: float
    seed: int
    routes: tuple[Route, ...]
    conflict_between: ConflictBetween
    binding: PolicyBinding

    def records(self, cases: Sequence[MeasuredCase]) -> list[CalibrationRecord]:
        """The cases on the calibrators' scale."""
        made = self.binding
        return calibration_records(cases, made.relevance_calibrator, made.confidence_calibrator)


def _asked(
    measured: MeasuredCases,
    choices: Mapping[str, CalibratorChoice],
    delta: float,
    seed: int,
    allowed_routes: Sequence[Route],
) -> _Asked:
    return _Asked(
        delta=delta,
        seed=seed,
        routes=_possible_routes(measured, allowed_routes),
        conflict_between=measured.conflict_between,
        binding=PolicyBinding(
            scorer=measured.scorer or Fingerprint(kind=UNNAMED),
            estimator=measured.estimator if "confidence" in choices else None,
            aggregator=measured.aggregator,
            relevance_calibrator=calibrator_of(choices, "relevance"),
            confidence_calibrator=calibrator_of(choices, "confidence"),
            created_by=f"knowgate {__version__}",
        ),
    )


def _for_risk(
    learning: Sequence[CalibrationRecord],
    records: Sequence[CalibrationRecord],
    targets: Sequence[RiskTarget],
    asked: _Asked,
) -> tuple[Policy, list[PathStep]]:
    units = one_per_question(records, seed=asked.seed)
    path = learn_path(
        learning,
        targets,
        delta=asked.delta,
        questions=len(units),
        may_follow=Route.FOLLOW_CONTEXT in asked.routes,
        may_answer=Route.ANSWER in asked.routes,
        conflict_between=asked.conflict_between,
    )
    policy = fit_policy(
        records,
        risk=targets,
        delta=asked.delta,
        path=path,
        seed=asked.seed,
        allowed_routes=asked.routes,
        conflict_between=asked.conflict_between,
        binding=asked.binding,
    )
    # The same test once more, for all that a policy does not keep of it.
    certificate = certify(
        Evidence.of(units),
        path,
        targets,
        delta=asked.delta,
        conflict_between=asked.conflict_between,
    )
    return policy, steps_of_certificate(certificate, asked.delta)


def _for_coverage(
    records: Sequence[CalibrationRecord], coverage: float, asked: _Asked
) -> tuple[Policy, list[PathStep]]:
    policy = fit_policy_for_coverage(
        records,
        coverage=coverage,
        delta=asked.delta,
        seed=asked.seed,
        allowed_routes=asked.routes,
        conflict_between=asked.conflict_between,
        binding=asked.binding,
    )
    return policy, steps_of_coverage(policy)


def _possible_routes(measured: MeasuredCases, allowed: Sequence[Route]) -> tuple[Route, ...]:
    """The allowed routes whose signal was measured at all.

    Raises:
        InputError: none is left.
    """
    has = {
        Route.FOLLOW_CONTEXT: any(case.relevance is not None for case in measured.cases),
        Route.ANSWER: any(case.confidence is not None for case in measured.cases),
        Route.ABSTAIN: True,
    }
    routes = tuple(dict.fromkeys(route for route in (*allowed, Route.ABSTAIN) if has[route]))
    if routes == (Route.ABSTAIN,):
        raise InputError(
            "neither relevance nor confidence was measured on any case, or their routes are not "
            "allowed",
            where=measured.source,
            hint="measure one of them",
        )
    return routes


def _targets(
    risk: float | Sequence[RiskTarget], loss: Literal["selective"] | LossTable, per_route: bool
) -> tuple[RiskTarget, ...]:
    if not isinstance(risk, int | float):
        return tuple(risk)
    first = RiskTarget("selective", risk) if loss == "selective" else RiskTarget("cost", risk, loss)
    kinds: tuple[Literal["follow", "answer"], ...] = ("follow", "answer")
    return (first, *(RiskTarget(kind, risk) for kind in kinds if per_route))


def _parts(
    measured: MeasuredCases, share: float, seed: int
) -> tuple[list[MeasuredCase], list[MeasuredCase], list[MeasuredCase]]:
    """Cases to learn from, to certify on, and to report.

    Raises:
        InputError: one of the first two would be empty.
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"share must be above 0 and at most 1, not {share}")
    fit_on, test = split_questions(measured.cases, share=share, seed=seed)
    learning = learning_share(len({case.question_id for case in fit_on}))
    learn, certifying = split_questions(fit_on, share=learning, seed=seed)
    if not learn or not certifying:
        raise InputError(
            f"too few questions to split: {measured.questions}, of them {share:g} to fit on",
            where=measured.source,
            hint="use more of them, or a larger share",
        )
    return learn, certifying, test
