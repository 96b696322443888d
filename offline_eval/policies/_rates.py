"""What a policy does with calibration records, and how often it is wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...calibration import CalibrationRecord, Interval
from ...calibration.risk import LeakFold
from ...guard.decision import Route
from ...guard.policy import Policy
from ...guard.routing import Signals, decide_route

Floats = NDArray[np.float64]
_NO_VARIANCE, _ROUNDING = 1e-12, 1e-9


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case under a policy.

    Attributes:
        case: as measured.
        relevance: calibrated, None where the signal failed.
        confidence: likewise.
        route: where the policy sends it.
    """

    case: CalibrationRecord
    relevance: float | None
    confidence: float | None
    route: Route

    @property
    def passes(self) -> bool:
        """Whether anything is answered."""
        return self.route is not Route.ABSTAIN

    @property
    def wrong(self) -> bool:
        """Whether what is answered is wrong; not known counts as wrong."""
        if self.route is Route.FOLLOW_CONTEXT:
            return not self.case.context_right
        return self.route is Route.ANSWER and not self.case.closed_book_right

    @property
    def answerable(self) -> bool:
        """Whether following the context or answering from memory would have been right."""
        return bool(self.case.context_right or self.case.closed_book_right)


def outcomes_under(policy: Policy, cases: Sequence[CalibrationRecord]) -> list[Outcome]:
    """Each case as a guard with this policy would decide it."""
    found = []
    for case in cases:
        relevance = calibrated_relevance(policy, case)
        confidence = calibrated_confidence(policy, case)
        signals = Signals.replay(
            policy, relevance, confidence, case.conflict, nothing_retrieved=case.nothing_retrieved
        )
        route = decide_route(policy, signals).route
        found.append(Outcome(case, relevance, confidence, route))
    return found


def calibrated_relevance(policy: Policy, case: CalibrationRecord) -> float | None:
    """Relevance in [0, 1]; 0 where nothing was retrieved."""
    if case.nothing_retrieved:
        return 0.0
    return None if case.relevance is None else policy.relevance_calibrator.apply(case.relevance)


def calibrated_confidence(policy: Policy, case: CalibrationRecord) -> float | None:
    """Confidence in [0, 1]."""
    return None if case.confidence is None else policy.confidence_calibrator.apply(case.confidence)


@dataclass(frozen=True, slots=True)
class Rates:
    """How a policy did on a part of the cases, with 95 % intervals.

    Attributes:
        cases: how many.
        questions: how many, case variants aside.
        coverage: share of cases that are let through.
        risk: share of those let through that are answered wrongly.
        followed: share of cases whose context is followed.
        followed_wrong: share of those that are answered wrongly.
        answered: share of cases answered from memory.
        answered_wrong: share of those that are answered wrongly.
        false_abstention: share of cases with a right answer to give that are abstained from.
    """

    cases: int
    questions: int
    coverage: Interval
    risk: Interval
    followed: Interval
    followed_wrong: Interval
    answered: Interval
    answered_wrong: Interval
    false_abstention: Interval


def rates_of(outcomes: Sequence[Outcome]) -> Rates:
    """The rates of outcomes of any number of questions; every case counts by its weight."""

    def rate(
        of: Callable[[Outcome], bool], among: Callable[[Outcome], bool] = lambda _: True
    ) -> Interval:
        return clustered_rate(
            [
                (outcome.case.unit, outcome.case.weight, of(outcome))
                for outcome in outcomes
                if among(outcome)
            ]
        )

    return Rates(
        cases=len(outcomes),
        questions=len({outcome.case.question_id for outcome in outcomes}),
        coverage=rate(lambda o: o.passes),
        risk=rate(lambda o: o.wrong, lambda o: o.passes),
        followed=rate(lambda o: o.route is Route.FOLLOW_CONTEXT),
        followed_wrong=rate(lambda o: o.wrong, lambda o: o.route is Route.FOLLOW_CONTEXT),
        answered=rate(lambda o: o.route is Route.ANSWER),
        answered_wrong=rate(lambda o: o.wrong, lambda o: o.route is Route.ANSWER),
        false_abstention=rate(lambda o: not o.passes, lambda o: o.answerable),
    )


def clustered_rate(
    trials: Sequence[tuple[tuple[str, str], float, bool]], *, most: int | None = None
) -> Interval:
    """Weighted share of trials that came true, with a 95 % interval over units.

    Clopper and Pearson's interval, exact where each unit has one trial of the same weight. The
    trials of a unit are no independent evidence: then it is that of as many independent trials
    as would give the share the variance that it has over units, and where units all went alike,
    which says nothing of the variance, of as many as there are units.

    Args:
        trials: unit, weight and whether it came true.
        most: independent trials that they count as at most; None: as many as there are.

    Returns:
        The interval; `n` counts units. Undefined without trials.

    Source: Korn & Graubard 1998, Confidence intervals for proportions with small expected number
    of positive counts estimated from survey data.

    Example:
        >>> found = clustered_rate([(("group", "a"), 1.0, True), (("group", "b"), 1.0, False)])
        >>> found.value, round(found.low, 3), round(found.high, 3)
        (0.5, 0.013, 0.987)
    """
    if not trials:
        return Interval()
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for unit, weight, true in trials:
        sums[unit][0] += weight * true
        sums[unit][1] += weight
    hits, totals = np.asarray(list(sums.values())).T
    n, value = len(hits), float(hits.sum() / totals.sum())
    if len(trials) == n and (totals == totals[0]).all():
        independent = float(n)
    else:
        independent = min(_independent(hits, totals, len(trials)), float(most or len(trials)))
    low, high = _clopper_pearson(value * independent, independent)
    return Interval(value, min(low, value), max(high, value), n)


def _independent(hits: Floats, totals: Floats, trials: int) -> float:
    """How many independent trials would say as much of a share as those of these units."""
    from scipy.special import stdtrit

    n, value = len(hits), float(hits.sum() / totals.sum())
    residuals = hits - totals * value
    variance = float(residuals @ residuals) / float(totals.sum()) ** 2 * n / max(1, n - 1)
    if n < 2 or variance <= _NO_VARIANCE:
        return float(n)
    # Of few units the variance is not well known either.
    known = float(stdtrit(trials - 1, 0.975) / stdtrit(n - 1, 0.975)) ** 2
    return value * (1.0 - value) / variance * known


def _clopper_pearson(successes: float, trials: float) -> tuple[float, float]:
    """Two-sided 95 % interval of a share; the numbers need not be whole."""
    from scipy.special import betaincinv

    failures = trials - successes
    low = 0.0 if successes < _ROUNDING else float(betaincinv(successes, failures + 1.0, 0.025))
    high = 1.0 if failures < _ROUNDING else float(betaincinv(successes + 1.0, failures, 0.975))
    return low, high


@dataclass(frozen=True, slots=True)
class LeakRates:
    """How a policy does on questions that it does not rest on, with 95 % intervals over passages.

    Attributes:
        left_out_abstention: share of left-out questions whose context does not pass, so
            that the policy abstains, or answers from memory where that is allowed; each
            passage counting once.
        false_abstention: the same share of questions with their source retrieved.
        unanswerable_abstention: the same share of the user's own unanswerable questions;
            without a value where there are none.
    """

    left_out_abstention: Interval
    false_abstention: Interval
    unanswerable_abstention: Interval = field(default_factory=Interval)

    def widened(self, other: LeakRates) -> LeakRates:
        """The same rates, with intervals that hold those of `other`, too."""
        return LeakRates(
            _widened(self.left_out_abstention, other.left_out_abstention),
            _widened(self.false_abstention, other.false_abstention),
            _widened(self.unanswerable_abstention, other.unanswerable_abstention),
        )


def _widened(one: Interval, other: Interval) -> Interval:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return one
    return Interval(one.value, min(one.low, other.low), max(one.high, other.high), one.n)


def leak_rates_of(policy: Policy, records: Sequence[CalibrationRecord]) -> LeakRates:
    """Compute the rates on held-out records; those without relevance are left out."""
    # Without confidence a policy never answers from memory.
    return _leak_rates(
        [
            (record, policy.route(policy.relevance_calibrator.apply(raw), None) is Route.ABSTAIN)
            for record in records
            if (raw := record.relevance) is not None
        ]
    )


def leak_rates_by(folds: Sequence[LeakFold], beside: Sequence[CalibrationRecord] = ()) -> LeakRates:
    """Compute the rates of questions that are judged by the thresholds of their folds.

    Args:
        folds: questions with their thresholds.
        beside: further cases of these questions or of others, which no threshold rests on.

    Example:
        >>> leak_rates_by([]).false_abstention
        Interval(value=None, low=None, high=None, n=0)
    """
    dealt = [(record, fold.threshold) for fold in folds for record in fold.records]
    by_unit = {record.unit: threshold for record, threshold in dealt}
    usual = _median([fold.threshold for fold in folds])
    dealt += [(record, by_unit.get(record.unit, usual)) for record in beside]
    return _leak_rates(
        [
            (record, threshold is None or record.relevance < threshold)
            for record, threshold in dealt
            if record.relevance is not None
        ]
    )


def _median(thresholds: Sequence[float | None]) -> float | None:
    known = sorted(one for one in thresholds if one is not None)
    return known[len(known) // 2] if known and len(known) == len(thresholds) else None


def _leak_rates(judged: Sequence[tuple[CalibrationRecord, bool]]) -> LeakRates:
    """Rates of cases with whether each is abstained from."""
    in_kb = [(r, out) for r, out in judged if r.case == "in_kb" and r.context_right]
    return LeakRates(
        _missing_rate(judged, "left_out"),
        clustered_rate([(r.unit, 1.0, out) for r, out in in_kb]),
        _missing_rate(judged, "unanswerable"),
    )


def _missing_rate(judged: Sequence[tuple[CalibrationRecord, bool]], case: str) -> Interval:
    """Share abstained from; each passage or topic counts once, as in the certificate."""
    found = [(r, abstained) for r, abstained in judged if r.case == case]
    sizes = Counter(record.unit for record, _ in found)
    trials = [(r.unit, 1.0 / sizes[r.unit], out) for r, out in found]
    # The threshold was chosen so that few pass: from few, what they vary cannot be told.
    return clustered_rate(trials, most=len(sizes))
