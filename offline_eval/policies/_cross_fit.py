"""Rates of a policy without held-out questions: each fold is judged by what the others give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...calibration import CalibrationRecord
from ...calibration.risk import Evidence, Fit, PathPoint, PolicyBinding, RiskTarget, learn_path
from ...guard.decision import Route
from ...guard.policy import Policy
from ._calibrators import calibrated_records, calibrator_of, choose_calibrators
from ._rates import Outcome, outcomes_under
from ._records import CalibrationSet

_FOLDS = 5
_ROUNDING = 1e-9


def cross_fitted(
    fit: Fit, measured: CalibrationSet, routes: Sequence[Route], *, seed: int = 0
) -> list[Outcome]:
    """Route every case by a policy that was made without the case's unit.

    A certificate on fewer questions would be stricter than the one that serves. So each
    fold's policy is not certified: it lets the same share of the other folds through as
    the fitted policy does of its questions.

    Args:
        fit: to all of the questions.
        measured: what it was fitted to.
        routes: that the policy may take.
        seed: of the deal of units to folds.
    """
    chosen = fit.certificate.chosen
    units = sorted({record.unit for record in measured.records})
    if chosen is None or len(units) < _FOLDS:
        return outcomes_under(fit.policy, measured.records)
    share = fit.certificate.points[chosen].let_through / fit.certificate.questions
    dealt = np.random.default_rng(seed).permutation(len(units)) % _FOLDS
    fold_of = dict(zip(units, dealt.tolist(), strict=True))
    making = _Making(fit, measured, tuple(routes), share, seed)
    found: list[Outcome] = []
    for fold in range(_FOLDS):
        inside = [r for r in measured.records if fold_of[r.unit] == fold]
        others = [r for r in measured.records if fold_of[r.unit] != fold]
        found += outcomes_under(making.policy(others), inside)
    return found


@dataclass(frozen=True, slots=True)
class _Making:
    fit: Fit
    measured: CalibrationSet
    routes: tuple[Route, ...]
    share: float
    seed: int

    def policy(self, records: Sequence[CalibrationRecord]) -> Policy:
        """The policy that lets the wanted share of `records` through, not certified."""
        choices = choose_calibrators(records, seed=self.seed)
        binding = PolicyBinding(
            relevance_calibrator=calibrator_of(choices, "relevance"),
            confidence_calibrator=calibrator_of(choices, "confidence"),
        )
        calibrated = calibrated_records(records, binding)
        between = self.measured.conflict_between
        path = learn_path(
            calibrated,
            self._targets(),
            delta=self._delta,
            questions=self.fit.certificate.questions,
            may_follow=Route.FOLLOW_CONTEXT in self.routes,
            may_answer=Route.ANSWER in self.routes,
            conflict_between=between,
        )
        evidence = Evidence.of(CalibrationRecord.one_per_question(calibrated))
        codes = evidence.route_codes(path, conflict_between=between)
        point = _nearest(path, (codes != 0).mean(axis=1).tolist(), self.share)
        checks = point.on_conflict == "abstain"
        return self.fit.policy.model_copy(
            update={
                "relevance_calibrator": binding.relevance_calibrator,
                "confidence_calibrator": binding.confidence_calibrator,
                "relevance_threshold": point.relevance,
                "confidence_threshold": point.confidence,
                "check_conflict": checks,
                "conflict_between": between if checks else "memory",
                "on_conflict": "abstain" if checks else "follow_context",
            }
        )

    @property
    def _delta(self) -> float:
        guarantee = self.fit.policy.guarantee
        assert guarantee is not None  # every fit has one
        return guarantee.level

    def _targets(self) -> tuple[RiskTarget, ...]:
        tested = self.fit.certificate.points[0].results
        targets = tuple(result.target for result in tested)
        # A coverage is tested alone; its path is ordered by the risk.
        known = all(target.kind != "abstention" for target in targets)
        return targets if known else (RiskTarget("selective", 0.5),)


def _nearest(path: Sequence[PathPoint], shares: Sequence[float], wanted: float) -> PathPoint:
    """The laxest point that lets no more than the wanted share through, else the strictest."""
    within = [i for i, share in enumerate(shares) if share <= wanted + _ROUNDING]
    return path[within[-1] if within else 0]
