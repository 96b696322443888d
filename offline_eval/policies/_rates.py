"""What a policy does with calibration records, and how often it is wrong."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...calibration import CalibrationRecord, Interval, QuestionResamples
from ...calibration.risk import LeakFold
from ...guard.decision import Route
from ...guard.policy import Policy
from ...guard.routing import Signals, decide_route

Floats = NDArray[np.float64]
_RESAMPLES = 1000


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


def rates_of(outcomes: Sequence[Outcome], *, seed: int = 0) -> Rates:
    """The rates; every case counts by its weight.

    Args:
        outcomes: of any number of questions.
        seed: of the resampling behind the intervals.
    """

    def rate(
        of: Callable[[Outcome], bool], among: Callable[[Outcome], bool] = lambda _: True
    ) -> Interval:
        return clustered_rate(
            [
                (outcome.case.unit, outcome.case.weight, of(outcome))
                for outcome in outcomes
                if among(outcome)
            ],
            seed=seed,
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
    trials: Sequence[tuple[tuple[str, str], float, bool]], *, seed: int = 0
) -> Interval:
    """Weighted share of trials that came true, with a 95 % interval over units.

    Where each unit has one trial of the same weight it is Wilson's interval; otherwise
    units are resampled, since the trials of one unit are no independent evidence. Of few
    units resampling says too little: the interval is then that of Student's t, if wider.

    Args:
        trials: unit, weight and whether it came true.
        seed: of the resampling.

    Returns:
        The interval; `n` counts units. Undefined without trials.

    Example:
        >>> clustered_rate([(("group", "a"), 1.0, True), (("group", "b"), 1.0, False)]).value
        0.5
    """
    if not trials:
        return Interval()
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for unit, weight, true in trials:
        sums[unit][0] += weight * true
        sums[unit][1] += weight
    pairs = np.asarray(list(sums.values()))
    hits, totals = pairs[:, 0], pairs[:, 1]
    n, value = len(pairs), float(hits.sum() / totals.sum())
    whole = np.isin(hits, (0.0, totals[0])).all() and (totals == totals[0]).all()
    if not whole:
        resamples = QuestionResamples(range(n), resamples=_RESAMPLES, seed=seed)
        drawn = resamples.totals(pairs)
        low, high = (float(end) for end in np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975]))
        if low < high:
            off = _students_error(hits, totals)
            return Interval(
                value, max(0.0, min(low, value - off)), min(1.0, max(high, value + off)), n
            )
    # As if each unit were one trial: resampling units that all went alike says nothing.
    near = Interval.wilson(round(value * n), n)
    low, high = near.low or 0.0, 1.0 if near.high is None else near.high
    return Interval(value, min(low, value), max(high, value), n)


def _students_error(hits: Floats, totals: Floats) -> float:
    """Half the width of the t-interval of a ratio over units, at 95 %; 0 for one unit."""
    from scipy.special import stdtrit

    n = len(hits)
    if n < 2:
        return 0.0
    residuals = hits - totals * (hits.sum() / totals.sum())
    error = math.sqrt(n / (n - 1) * float(residuals @ residuals)) / float(totals.sum())
    return float(stdtrit(n - 1, 0.975)) * error


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


def leak_rates_of(
    policy: Policy, records: Sequence[CalibrationRecord], *, seed: int = 0
) -> LeakRates:
    """Compute the rates on held-out records; those without relevance are left out."""
    # Without confidence a policy never answers from memory.
    return _leak_rates(
        [
            (record, policy.route(policy.relevance_calibrator.apply(raw), None) is Route.ABSTAIN)
            for record in records
            if (raw := record.relevance) is not None
        ],
        seed,
    )


def cross_fitted_leak_rates(
    folds: Sequence[LeakFold], beside: Sequence[CalibrationRecord] = (), *, seed: int = 0
) -> LeakRates:
    """Compute the rates of questions that are judged by thresholds from the others.

    Args:
        folds: questions with their thresholds.
        beside: further cases of these questions or of others, which no threshold rests on.
        seed: of the resampling behind the intervals.
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
        ],
        seed,
    )


def _median(thresholds: Sequence[float | None]) -> float | None:
    known = sorted(one for one in thresholds if one is not None)
    return known[len(known) // 2] if known and len(known) == len(thresholds) else None


def _leak_rates(judged: Sequence[tuple[CalibrationRecord, bool]], seed: int) -> LeakRates:
    """Rates of cases with whether each is abstained from."""
    in_kb = [(r, out) for r, out in judged if r.case == "in_kb" and r.context_right]
    return LeakRates(
        _missing_rate(judged, "left_out", seed),
        clustered_rate([(r.unit, 1.0, out) for r, out in in_kb], seed=seed),
        _missing_rate(judged, "unanswerable", seed),
    )


def _missing_rate(
    judged: Sequence[tuple[CalibrationRecord, bool]], case: str, seed: int
) -> Interval:
    """Share abstained from; each passage or topic counts once, as in the certificate."""
    found = [(r, abstained) for r, abstained in judged if r.case == case]
    sizes = Counter(record.unit for record, _ in found)
    return clustered_rate([(r.unit, 1.0 / sizes[r.unit], out) for r, out in found], seed=seed)
