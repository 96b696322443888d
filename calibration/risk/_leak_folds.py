"""Thresholds for reporting: what a policy does, and what was chosen by the same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .. import CalibrationRecord
from ._costs import best_threshold
from ._fit import Fit
from ._leak import populations_of
from ._leak_certificate import LeftOut, thresholds_between
from ._risks import Uncertified

_MOST_FOLDS = 20
_ROUNDING = 1e-9


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
        placed = [(fold_of[record.unit], record) for record in fit.records]
        found = []
        for number in range(int(dealt.max(initial=0)) + 1):
            inside = tuple(record for fold, record in placed if fold == number)
            threshold = own.threshold
            if isinstance(fit.risk, Uncertified):
                others = [record for fold, record in placed if fold != number]
                threshold = best_threshold(others, fit.risk)
            found.append(cls(inside, threshold))
        return tuple(found)

    @classmethod
    def whole(cls, fit: Fit) -> LeakFold:
        """All questions of a fit, with the threshold of its policy; arguments as for `deal`."""
        if isinstance(fit.risk, Uncertified):
            return cls(fit.records, best_threshold(fit.records, fit.risk))
        if fit.certificate.chosen is None:
            return cls(fit.records, None)
        shares = {case: _share_passing(fit, case) for case in populations_of(fit.records)}
        return cls(fit.records, _threshold_for(fit.records, shares))

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
        for number, folds in enumerate(zip(*candidates, strict=True)):
            others = [
                [r for at, fold in enumerate(dealt) if at != number for r in fold.records]
                for dealt in candidates
            ]
            passing = [_passing(o, f.threshold) for o, f in zip(others, folds, strict=True)]
            found.append(folds[passing.index(max(passing))])
        return tuple(found)


def _passing(records: Sequence[CalibrationRecord], threshold: float | None) -> int:
    """How many answerable questions pass."""
    if threshold is None:
        return 0
    answerable = [r.relevance for r in records if r.is_answerable and r.relevance is not None]
    return sum(relevance >= threshold for relevance in answerable)


def _share_passing(fit: Fit, case: str) -> float:
    """The share of the questions of one kind that must not pass which the policy lets pass."""
    calibrator, threshold = fit.policy.relevance_calibrator, fit.policy.relevance_threshold
    assert threshold is not None
    measured = [r for r in fit.records if r.case == case and r.relevance is not None]
    passing = [calibrator.apply(r.relevance or 0.0) >= threshold for r in measured]
    return float(LeftOut.of(measured).weights[passing].sum())


def _threshold_for(
    records: Sequence[CalibrationRecord], shares: Mapping[str, float]
) -> float | None:
    """The laxest threshold at which no more than its share of each kind passes."""
    found = [
        threshold_for_share([r for r in records if not r.is_missing or r.case == case], share)
        for case, share in shares.items()
    ]
    known = [threshold for threshold in found if threshold is not None]
    return max(known) if len(known) == len(found) else None


def threshold_for_share(records: Sequence[CalibrationRecord], share: float) -> float | None:
    """The laxest threshold at which no more than `share` of what must not pass does."""
    measured = [r for r in records if r.is_missing and r.relevance is not None]
    if not measured:
        return None
    left_out = LeftOut.of(measured)
    in_kb = [r.relevance for r in records if r.is_answerable and r.relevance is not None]
    thresholds = thresholds_between(left_out.scores, [*in_kb, *left_out.scores.tolist()])
    order = np.argsort(-left_out.scores, kind="stable")
    passing = np.concatenate([[0.0], np.cumsum(left_out.weights[order])])
    passing = passing[len(order) - np.searchsorted(left_out.scores[order[::-1]], thresholds)]
    allowed = np.flatnonzero(passing <= share + _ROUNDING)
    return float(thresholds[allowed[-1]]) if len(allowed) else None
