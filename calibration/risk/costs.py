"""Choose a threshold by what errors cost: best on these questions, and nothing is guaranteed.

raw relevance of what may pass, and of what must not ─► a candidate in each gap ─► the cheapest
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import CalibrationRecord
from ..calibrators import fit_platt
from ..records import Records
from ..statistics import middles
from .certificate import Certificate
from .fit import Fit, FitSettings
from .leak import (
    LeftOut,
    by_population,
    order_keeping,
    populations_of,
    raw_relevance,
    threshold_policy,
    thresholds_between,
)
from .risks import Costs, Uncertified

_ROUNDING = 1e-9


def fit_by_costs(records: Records, risk: Uncertified, settings: FitSettings) -> Fit:
    """Fit a policy whose threshold is the best one on these records; its note says so.

    Raises:
        ValueError: no question of one of the two kinds was measured.
    """
    in_kb, missing = raw_relevance(records)
    for kind, scores in (("answerable", in_kb), ("unanswerable", missing.scores)):
        if not len(scores):
            raise ValueError(f"no {kind} question was measured, so that errors cannot be weighed")
    raw = best_threshold(records, risk)
    scores = [*in_kb, *missing.scores.tolist()]
    calibrator = fit_platt(in_kb, missing.scores.tolist())
    if raw is not None:
        calibrator = order_keeping(calibrator, raw, scores)
    policy = threshold_policy(records, calibrator, raw, settings)
    questions = len({record.question_id for record in records})
    note = f"Threshold chosen {risk.words} on {questions} questions; nothing is guaranteed."
    untested = Certificate((), 0, None, len(missing.scores))
    policy = policy.model_copy(update={"note": note})
    return Fit(policy, untested, tuple(records), risk)


def best_threshold(records: Records, risk: Uncertified) -> float | None:
    """The raw threshold that is best on these records, of equals the strictest.

    The leak counts every passage or topic once, false abstention every question, as they are
    reported.

    Returns:
        None where it is best to let nothing pass, and where one of the two kinds is missing.
    """
    in_kb = np.sort([r.relevance for r in records if r.is_answerable and r.relevance is not None])
    missing = [r for r in records if r.is_missing and r.relevance is not None]
    if not len(in_kb) or not missing:
        return None
    levels = np.unique([*in_kb, *(r.relevance for r in missing)])
    thresholds = np.concatenate([levels[:1], middles(levels[:-1], levels[1:]), [math.inf]])
    abstained = np.searchsorted(in_kb, thresholds)
    if isinstance(risk, Costs):
        of_leak, of_abstention = risk.weights
        passing = [
            LeftOut.of([record for record in missing if record.case == case]).passing(thresholds)
            for case in populations_of(missing)
        ]
        # Of several kinds their mean.
        leaks = np.mean(passing, axis=0)
        costs = of_leak * leaks + of_abstention * abstained / len(in_kb)
        allowed = costs <= costs.min() + _ROUNDING * (of_leak + of_abstention)
    else:
        # Of a new question, which falls into each gap between n scores with probability 1/(n + 1).
        allowed = abstained <= max(0.0, risk.share * (len(in_kb) + 1) - 0.5)
    found = float(thresholds[np.flatnonzero(allowed)[-1]])
    return found if math.isfinite(found) else None


_MOST_FOLDS = 20


@dataclass(frozen=True, slots=True)
class LeakFold:
    """Questions, and the threshold that they are judged by.

    Attributes:
        records: all cases of these questions; whole passages.
        threshold: on raw relevance; None where the policy lets nothing pass.
    """

    records: tuple[CalibrationRecord, ...]
    threshold: float | None

    @classmethod
    def deal(cls, fit: Fit, *, seed: int = 0) -> tuple[LeakFold, ...]:
        """Deal the passages of a fit to folds, with the threshold that each is judged by.

        Costs choose a threshold by all that is reported of it, so that it looks better than it
        is: each fold's is then chosen on the other folds. A `Leak` does not: how many left-out
        questions pass is what its test allows, whichever they are, and answerable ones have no
        say in it. So its folds are judged by the threshold of the policy itself; one chosen on
        fewer questions would be stricter, as fewer may pass.

        Args:
            fit: to a `Leak`, to `Costs` or to `MaxAbstention`.
            seed: of the deal.

        Returns:
            At most 20 folds, fewer of fewer passages; one without a threshold where nothing was
            certified.
        """
        own = cls.whole(fit)
        if not isinstance(fit.risk, Uncertified) and own.threshold is None:
            return (own,)
        units = sorted({record.unit for record in fit.records})
        dealt = np.random.default_rng(seed).permutation(len(units)) % min(_MOST_FOLDS, len(units))
        fold_of = dict(zip(units, dealt.tolist(), strict=True))
        found = []
        for number in range(int(dealt.max(initial=0)) + 1):
            inside = tuple(one for one in fit.records if fold_of[one.unit] == number)
            threshold = own.threshold
            if isinstance(fit.risk, Uncertified):
                others = [one for one in fit.records if fold_of[one.unit] != number]
                threshold = best_threshold(others, fit.risk)
            found.append(cls(inside, threshold))
        return tuple(found)

    @classmethod
    def whole(cls, fit: Fit) -> LeakFold:
        """All questions of a fit, with the threshold of its policy; arguments as for `deal`."""
        if isinstance(fit.risk, Uncertified):
            return cls(fit.records, best_threshold(fit.records, fit.risk))
        if fit.certificate.best is None:
            return cls(fit.records, None)
        found = [
            threshold_for_share(part, _share_passing(fit, case))
            for case, part in by_population(fit.records).items()
        ]
        # The laxest threshold at which no more than its share of each kind passes.
        known = [threshold for threshold in found if threshold is not None]
        return cls(fit.records, max(known) if len(known) == len(found) else None)

    @staticmethod
    def chosen(candidates: Sequence[tuple[LeakFold, ...]]) -> tuple[LeakFold, ...]:
        """Choose a scorer for each fold by the other folds, so that the choice is judged too.

        Args:
            candidates: of each scorer the folds that `deal` gave of the same questions.

        Returns:
            Of each fold the one of the scorer that lets most answerable questions of the other
            folds pass, of equals the first.
        """
        found = []
        for folds in zip(*candidates, strict=True):
            passing = [
                sum(_passing(fold, own.threshold) for fold in dealt if fold is not own)
                for dealt, own in zip(candidates, folds, strict=True)
            ]
            found.append(folds[passing.index(max(passing))])
        return tuple(found)


def _passing(fold: LeakFold, threshold: float | None) -> int:
    """How many answerable questions of a fold pass from a threshold on; None: none does."""
    least = math.inf if threshold is None else threshold
    scores = (one.relevance for one in fold.records if one.is_answerable)
    return sum(score is not None and score >= least for score in scores)


def _share_passing(fit: Fit, case: str) -> float:
    """The share of the questions of one kind that must not pass which the policy lets pass."""
    calibrator, threshold = fit.policy.relevance_calibrator, fit.policy.relevance_threshold
    assert threshold is not None
    measured = [r for r in fit.records if r.case == case and r.relevance is not None]
    passing = [calibrator.apply(r.relevance or 0.0) >= threshold for r in measured]
    return float(LeftOut.of(measured).weights[passing].sum())


def threshold_for_share(records: Records, share: float) -> float | None:
    """The laxest threshold at which no more than `share` of what must not pass does."""
    left_out = LeftOut.of([r for r in records if r.is_missing and r.relevance is not None])
    in_kb = [r.relevance for r in records if r.is_answerable and r.relevance is not None]
    thresholds = thresholds_between(left_out.scores, in_kb)
    allowed = np.flatnonzero(left_out.passing(thresholds) <= share + _ROUNDING)
    return float(thresholds[allowed[-1]]) if len(allowed) else None
