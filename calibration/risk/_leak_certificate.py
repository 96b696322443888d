"""Test thresholds on the raw relevance of questions that must not pass."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...guard.decision import Route
from ...guard.policy import Calibrator, Guarantee
from .. import CalibrationRecord
from .._statistics import errors_allowed
from ._certificate import Certificate, PointResult, TargetResult, sequence_certificate
from ._path import PathPoint
from ._risks import RiskTarget
from ._tests import binomial_p_values, hoeffding_bentkus_p_values

Floats = NDArray[np.float64]
# Points of a long path that a certificate shows.
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Raw relevance of questions that must not pass.

    Attributes:
        scores: finite, shape (n,).
        passages: number of the passage of each, from 0, shape (n,).
        sizes: questions of each passage, shape (passages,).
    """

    scores: Floats
    passages: NDArray[np.intp]
    sizes: Floats

    @classmethod
    def of(cls, records: Sequence[CalibrationRecord]) -> LeftOut:
        """From records that have a relevance."""
        numbers: dict[tuple[str, str], int] = {}
        owners = [numbers.setdefault(record.unit, len(numbers)) for record in records]
        passages = np.asarray(owners, dtype=np.intp)
        return cls(
            np.asarray([record.relevance for record in records], dtype=np.float64),
            passages,
            np.bincount(passages).astype(np.float64),
        )

    @property
    def weights(self) -> Floats:
        """Of each question, such that every passage counts once; their sum is 1."""
        return np.asarray(1.0 / self.sizes[self.passages] / len(self.sizes))

    def shares(self, thresholds: Floats) -> Floats:
        """Share of each passage's questions that pass, shape (thresholds, passages)."""
        found = [
            np.bincount(self.passages[self.scores >= threshold], minlength=len(self.sizes))
            for threshold in thresholds.tolist()
        ]
        return np.asarray(found, dtype=np.float64).reshape(-1, len(self.sizes)) / self.sizes

    def counts(self, threshold: float) -> tuple[tuple[int, int, int], ...]:
        """Questions of a passage, those of them that pass, and how many such passages there are."""
        passing = np.bincount(
            self.passages[self.scores >= threshold], minlength=len(self.sizes)
        ).tolist()
        found = Counter(zip(self.sizes.astype(int).tolist(), passing, strict=True))
        return tuple((size, passed, count) for (size, passed), count in sorted(found.items()))


def certify_leak(
    left_out: LeftOut,
    thresholds: Floats,
    calibrator: Calibrator,
    target: RiskTarget,
    delta: float,
) -> tuple[Certificate, float | None]:
    """Test thresholds on raw relevance in order at level `delta`, until one is not certified.

    The pass rate falls as the threshold rises, and so does each passage's share of questions
    that pass. If some threshold whose pass rate is above the bound passes the test, so does
    the strictest such one, and that happens with probability δ at most. So thresholds may lie
    between the scores themselves.

    With one question per passage the test is the exact binomial tail; else it is that of the
    passages' shares (`leak_p_values`).

    Points after the first that fails are left out of the certificate: they would fail too.

    Args:
        left_out: what must not pass.
        thresholds: from strict to lax; a score passes from the threshold on.
        calibrator: turns thresholds into operating points; takes no part in the test.
        target: the bound on the pass rate.
        delta: probability that the chosen point breaks it by bad luck.

    Returns:
        The certificate, and the raw threshold that it chose.

    Source: Angelopoulos et al. 2021, Learn then Test; Bates et al. 2021 for the risk that
    falls along the path.
    """
    n = len(left_out.scores)
    errors = n - np.searchsorted(np.sort(left_out.scores), thresholds).astype(np.int64)
    shown, p_values = _leak_p_values(left_out, thresholds, errors, target.bound, delta)
    points = tuple(
        PointResult(
            PathPoint(calibrator.apply(float(thresholds[place])), None),
            {Route.ABSTAIN: n - wrong, Route.FOLLOW_CONTEXT: wrong, Route.ANSWER: 0},
            wrong,
            (TargetResult(target, n, float(wrong), p_value),),
        )
        for place, wrong, p_value in zip(
            shown.tolist(), errors[shown].tolist(), p_values.tolist(), strict=True
        )
    )
    found = sequence_certificate(points, n, delta)
    return found, None if found.chosen is None else float(thresholds[shown[found.chosen]])


def _leak_p_values(
    left_out: LeftOut, thresholds: Floats, errors: NDArray[np.int64], bound: float, delta: float
) -> tuple[NDArray[np.intp], Floats]:
    """Places of the thresholds up to the first that fails, and their p-values."""
    passages = len(left_out.sizes)
    if passages == len(left_out.scores):
        p_values = binomial_p_values(
            errors.astype(np.float64), np.full(errors.shape, passages), bound
        )
        tested = int(np.searchsorted(p_values > delta, True)) + 1
        return np.arange(len(thresholds))[:tested], p_values[:tested]
    if not len(thresholds):
        return np.arange(0), np.zeros(0)
    of_shares = leak_p_values(left_out.sizes, bound, delta)

    def p_values_at(places: NDArray[np.intp]) -> Floats:
        return of_shares(left_out.shares(thresholds[places]))

    passed, fails = -1, len(thresholds)
    while fails - passed > 1:
        middle = (passed + fails) // 2
        if p_values_at(np.asarray([middle]))[0] <= delta:
            passed = middle
        else:
            fails = middle
    last = min(fails, len(thresholds) - 1)
    # The path of many questions is shown in steps; the points on both sides of the end are.
    steps = np.linspace(0, last, min(last + 1, _MOST_SHOWN)).astype(np.intp)
    shown = np.union1d(steps, [max(0, passed), last])[: len(thresholds)]
    return shown, p_values_at(shown)


def leak_p_values(sizes: Floats, bound: float, delta: float) -> Callable[[Floats], Floats]:
    """Prepare the p-values of "more than `bound` pass", from each passage's share that passes.

    Args:
        sizes: questions of each passage.
        bound: α on the mean share.
        delta: level of the test; p-values well above it may be given as 1.

    Returns:
        A function of shares of shape (points, passages), giving shape (points,).
    """
    if (sizes == 1).all():
        count = np.full(1, len(sizes))
        return lambda shares: binomial_p_values(shares.sum(axis=1), count, bound)
    test = Guarantee.leak_test(sizes.tolist(), bound)
    if test.takes_long:
        return lambda shares: hoeffding_bentkus_p_values(shares.sum(axis=1), len(sizes), bound)
    # Never more than where each passage passes as a whole or not at all, and one to be shown.
    most = (2 + (errors_allowed(len(sizes), bound, delta) or 0)) * test.weights[-1]
    known = np.append(test.p_values(most), 1.0)
    return lambda shares: known[np.minimum(test.totals(shares), most + 1)]


def thresholds_between(must_not_pass: Floats, may_pass: Sequence[float]) -> Floats:
    """Compute a threshold above each score that must not pass, the highest first.

    Args:
        must_not_pass: finite scores.
        may_pass: other scores, used only to place thresholds in the middle of the free
            gap, away from both neighbours.

    Returns:
        Shape (distinct scores that must not pass,); one less where nothing can lie above the
        highest of them.

    Example:
        >>> thresholds_between(np.array([0.1, 0.1, 0.5]), [0.9, 0.2]).round(2).tolist()
        [0.7, 0.15]
    """
    below = np.unique(must_not_pass)[::-1]
    levels = np.unique(np.concatenate([below, np.asarray(may_pass, dtype=np.float64)]))
    # Where there is nothing above, the next number up.
    levels = np.append(levels, math.inf)
    above = levels[np.searchsorted(levels, below, side="right")]
    with np.errstate(over="ignore"):
        above = np.where(np.isinf(above), np.nextafter(below, math.inf), above)
    # The middle of the gap, so that the last bit of a score never decides; halved first,
    # because the sum of two huge scores would be infinite.
    middle = below / 2 + above / 2
    found = np.where((below < middle) & (middle <= above), middle, above)
    return np.asarray(found[np.isfinite(found)])
