"""What a policy does with calibration records, and how often it is wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...calibration import (
    CalibrationRecord,
    CalibratorChoice,
    Interval,
    ReliabilityDiagram,
    SelectiveCurve,
)
from ...calibration.probability_quality import ReliabilityBin
from ...calibration.risk import Fit
from ...calibration.risk.costs import LeakFold
from ...guard.decision import Route
from ...guard.policy import Policy
from ...guard.routing import Calibrator, Signals, decide_route
from ..run.grouping import grouped

Floats = NDArray[np.float64]
_NO_VARIANCE, _ROUNDING = 1e-12, 1e-9


class Outcome:
    """One case under a policy, as a guard with it would decide.

    Args:
        policy: decides.
        case: as measured.

    Attributes:
        relevance: calibrated, None where the signal failed.
        confidence: likewise.
        route: where the policy sends it.
        passes: anything is answered.
        wrong: what is answered is wrong; not known counts as wrong.
        answerable: following the context or answering from memory would have been right.
    """

    def __init__(self, policy: Policy, case: CalibrationRecord) -> None:
        self.case = case
        self.relevance, self.confidence = calibrated_signals(
            case, policy.relevance_calibrator, policy.confidence_calibrator
        )
        nothing, given = case.nothing_retrieved, (self.relevance, self.confidence, case.conflict)
        signals = Signals.replay(policy, *given, nothing_retrieved=nothing)
        self.route = route = decide_route(policy, signals).route
        self.passes = route is not Route.ABSTAIN
        self.answerable = bool(case.context_right or case.closed_book_right)
        right = case.context_right if route is Route.FOLLOW_CONTEXT else case.closed_book_right
        self.wrong = self.passes and not right


def outcomes_under(policy: Policy, cases: Sequence[CalibrationRecord]) -> list[Outcome]:
    """Each case as a guard with this policy would decide it."""
    return [Outcome(policy, case) for case in cases]


def calibrated_signals(
    case: CalibrationRecord, relevance: Calibrator, confidence: Calibrator
) -> tuple[float | None, float | None]:
    """Relevance and confidence in [0, 1]; where nothing was retrieved relevance is 0."""
    found = None if case.relevance is None else relevance.apply(case.relevance)
    return (
        0.0 if case.nothing_retrieved else found,
        None if case.confidence is None else confidence.apply(case.confidence),
    )


class Rates:
    """How a policy did on a part of the cases, with 95 % intervals.

    Args:
        outcomes: of any number of questions; every case counts by its weight.

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

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        def rate(of: Callable[[Outcome], bool], among: Sequence[Outcome] = outcomes) -> Interval:
            return clustered_rate([(o.case.unit, o.case.weight, of(o)) for o in among])

        routes = grouped(outcomes, lambda o: o.route)
        followed, answered = (routes.get(one, []) for one in (Route.FOLLOW_CONTEXT, Route.ANSWER))
        self.cases = len(outcomes)
        self.questions = len({outcome.case.question_id for outcome in outcomes})
        self.coverage = rate(lambda o: o.passes)
        self.risk = rate(lambda o: o.wrong, [o for o in outcomes if o.passes])
        self.followed = rate(lambda o: o.route is Route.FOLLOW_CONTEXT)
        self.followed_wrong = rate(lambda o: o.wrong, followed)
        self.answered = rate(lambda o: o.route is Route.ANSWER)
        self.answered_wrong = rate(lambda o: o.wrong, answered)
        self.false_abstention = rate(lambda o: not o.passes, [o for o in outcomes if o.answerable])


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
    independent = float(n)
    if len(trials) > n or (totals != totals[0]).any():
        independent = min(_independent(hits, totals, len(trials)), float(most or len(trials)))
    low, high = _clopper_pearson(value * independent, independent)
    return Interval(value, low, high, n).around(value)


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
        names = [one.name for one in fields(self)]
        return LeakRates(*(_widened(getattr(self, n), getattr(other, n)) for n in names))


def _widened(one: Interval, other: Interval) -> Interval:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return one
    return Interval(one.value, min(one.low, other.low), max(one.high, other.high), one.n)


def passing(policy: Policy, records: Sequence[CalibrationRecord]) -> list[CalibrationRecord]:
    """The records whose context a policy follows; without confidence it answers no other."""
    calibrator = policy.relevance_calibrator
    return [
        record
        for record in records
        if record.relevance is not None
        and policy.route(calibrator.apply(record.relevance), None) is Route.FOLLOW_CONTEXT
    ]


def leak_rates_of(policy: Policy, records: Sequence[CalibrationRecord]) -> LeakRates:
    """Compute the rates on held-out records; those without relevance are left out."""
    measured = [record for record in records if record.relevance is not None]
    through = set(map(id, passing(policy, measured)))
    return _leak_rates([(record, id(record) not in through) for record in measured])


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
    known = sorted(fold.threshold for fold in folds if fold.threshold is not None)
    usual = known[len(known) // 2] if known and len(known) == len(folds) else None
    dealt += [(record, by_unit.get(record.unit, usual)) for record in beside]
    return _leak_rates(
        [
            (record, threshold is None or record.relevance < threshold)
            for record, threshold in dealt
            if record.relevance is not None
        ]
    )


def _leak_rates(judged: Sequence[tuple[CalibrationRecord, bool]]) -> LeakRates:
    """Rates of cases with whether each is abstained from."""
    missing = {}
    for case in ("left_out", "unanswerable"):
        found = [(r.unit, out) for r, out in judged if r.case == case]
        # Each passage or topic counts once, as in the certificate.
        sizes = Counter(unit for unit, _ in found)
        trials = [(unit, 1.0 / sizes[unit], out) for unit, out in found]
        # The threshold was chosen so that few pass: from few, what they vary cannot be told.
        missing[f"{case}_abstention"] = clustered_rate(trials, most=len(sizes))
    in_kb = [(r.unit, 1.0, out) for r, out in judged if r.case == "in_kb" and r.context_right]
    return LeakRates(false_abstention=clustered_rate(in_kb), **missing)


_RESAMPLES = 200


SIGNALS = {"relevance": "context_right", "confidence": "closed_book_right"}
"""Per signal the outcome that it predicts; both are attributes of a record."""


class SignalValues(NamedTuple):
    """What a signal said, and what came true.

    Attributes:
        raw: one per case that it was measured on.
        came_true: likewise; not known counts as not.
        units: likewise, the group or the question on its own.
        failed: cases without a value.
    """

    raw: list[float]
    came_true: list[bool]
    units: list[str]
    failed: int


def signal_values(name: str, cases: Sequence[CalibrationRecord]) -> SignalValues:
    """The values of `relevance` or `confidence`.

    Where nothing was retrieved, relevance was not measured. The variants of a question
    share one closed-book answer, whose confidence counts once.
    """
    found: dict[tuple[object, ...], tuple[float, bool, str]] = {}
    failed = 0
    for case in cases:
        raw: float | None = getattr(case, name)
        if name == "relevance" and case.nothing_retrieved:
            continue
        if raw is None:
            failed += 1
            continue
        came_true = bool(getattr(case, SIGNALS[name]))
        variant = case.case if name == "relevance" else (raw, came_true)
        found[case.question_id, variant] = (raw, came_true, ":".join(case.unit))
    raws, outcomes, units = zip(*found.values(), strict=True) if found else ((), (), ())
    return SignalValues(list(raws), list(outcomes), list(units), failed)


@dataclass(frozen=True, slots=True)
class StatedProbabilities:
    """How probabilities compare with what came true.

    Attributes:
        calibration_error: debiased, with its interval over questions' groups.
        brier: mean squared error, likewise.
        bins: of stated probability against observed share.
    """

    calibration_error: Interval
    brier: Interval
    bins: tuple[ReliabilityBin, ...]

    @classmethod
    def of(
        cls, probabilities: Sequence[float], values: SignalValues, seed: int
    ) -> StatedProbabilities:
        """Compare probabilities of some cases with what came true of them."""
        interval = partial(_interval, probabilities, values.came_true, values.units, seed)
        return cls(
            interval(ReliabilityDiagram.debiased_error),
            interval(ReliabilityDiagram.brier_score),
            ReliabilityDiagram.of(probabilities, values.came_true).bins,
        )


def _interval(
    values: Sequence[float],
    outcomes: Sequence[bool],
    units: Sequence[str],
    seed: int,
    statistic: Callable[..., float | None],
) -> Interval:
    return Interval.bootstrap(
        statistic, values, outcomes, groups=units, resamples=_RESAMPLES, seed=seed
    )


class SignalQuality:
    """One signal, on questions that its calibrator was not fitted on.

    Args:
        choice: the calibrator and why.
        values: of the signal; at least one.
        seed: of the resampling behind the intervals.

    Attributes:
        calibrator: its kind.
        reason: why this kind.
        losses: log loss of each kind on held-out folds; empty where nothing was measured.
        cases: that it was measured on here.
        failed: cases without a value.
        auroc: how well it tells right from wrong, None where all went alike.
        before: the raw values; None where they are no probabilities.
        after: the calibrated values.
    """

    def __init__(self, choice: CalibratorChoice, values: SignalValues, seed: int) -> None:
        pairs = list(zip(values.raw, values.came_true, strict=True))
        stated = all(0.0 <= raw <= 1.0 for raw in values.raw)
        calibrated = [choice.calibrator.apply(score) for score in values.raw]
        right, wrong = ([score for score, true in pairs if true is came] for came in (True, False))
        self.calibrator, self.reason, self.losses = choice.kind, choice.reason, choice.losses
        self.cases, self.failed = len(values.raw), values.failed
        self.auroc = SelectiveCurve.auroc(right, wrong)
        self.before = StatedProbabilities.of(values.raw, values, seed) if stated else None
        self.after = StatedProbabilities.of(calibrated, values, seed)

    @classmethod
    def of_signals(
        cls,
        choices: Mapping[str, CalibratorChoice],
        cases: Sequence[CalibrationRecord],
        *,
        seed: int = 0,
    ) -> dict[str, SignalQuality]:
        """Return the quality of each signal that has a value.

        Args:
            choices: calibrators by the name of their signal, `relevance` or `confidence`.
            cases: that the calibrators were not fitted on.
            seed: of the resampling behind the intervals.
        """
        values = {name: signal_values(name, cases) for name in choices}
        return {name: cls(choices[name], one, seed) for name, one in values.items() if one.raw}


class SelectiveQuality:
    """One way of ranking cases, the surest first.

    Args:
        outcomes: that it ranks; none of their signals failed.
        signals: of which the larger ranks a case.
        risk: the bound that coverage is read off at.
        seed: of the resampling behind the intervals.

    Attributes:
        cases: how many.
        aurc: area under risk against coverage, with its interval over questions' groups.
        excess_aurc: the same, less that of the best ranking there is.
        augrc: area under the generalised curve.
        coverage_at_risk: largest share accepted at no more than the bound, as it was seen here;
            None where no threshold stays within it.
        curve: risk against coverage.
    """

    def __init__(
        self, outcomes: Sequence[Outcome], signals: Sequence[str], risk: float, seed: int
    ) -> None:
        sure, wrong, units = [], [], []
        for outcome in outcomes:
            values = [getattr(outcome, signal) for signal in signals]
            largest = signals[values.index(max(values))]
            sure.append(max(values))
            wrong.append(not getattr(outcome.case, SIGNALS[largest]))
            units.append(":".join(outcome.case.unit))
        interval = partial(_interval, sure, wrong, units, seed)
        self.cases = len(sure)
        self.aurc = interval(SelectiveCurve.aurc)
        self.excess_aurc = interval(SelectiveCurve.excess_aurc)
        self.augrc = interval(SelectiveCurve.augrc)
        self.coverage_at_risk = SelectiveCurve.coverage_at_risk(sure, wrong, risk)
        self.curve = SelectiveCurve.of(sure, wrong)


_RANKINGS = {
    "context alone, by relevance": ("relevance",),
    "memory alone, by confidence": ("confidence",),
    "context or memory, by the larger": ("relevance", "confidence"),
}


def selective_qualities(
    policy: Policy, cases: Sequence[CalibrationRecord], *, risk: float, seed: int = 0
) -> dict[str, SelectiveQuality]:
    """By relevance alone, by confidence alone, and by the larger of the two.

    Args:
        policy: for its calibrators.
        cases: that the calibrators were not fitted on.
        risk: the bound that coverage is read off at.
        seed: of the resampling behind the intervals.
    """
    outcomes = outcomes_under(policy, cases)
    found = {}
    for name, signals in _RANKINGS.items():
        ranked = [one for one in outcomes if None not in [getattr(one, s) for s in signals]]
        if ranked:
            found[name] = SelectiveQuality(ranked, signals, risk, seed)
    return found


class PathStep:
    """One point of the path, on the questions that certify.

    Args:
        fit: the declared path as it was tested.
        index: place of the point on it.

    Attributes:
        number: from 1, in the order declared.
        relevance: threshold on relevance, None: no context is followed.
        confidence: threshold on confidence, None: nothing is answered from memory.
        on_conflict: what a conflict does to a context that passes.
        coverage: share of questions let through; None without questions.
        risk: of the first bound: the share that went wrong, or the mean cost; None where
            no question counts for it.
        p_value: of "some bound is broken"; where a coverage was asked for, of "too little is
            let through".
        tested: whether testing came this far.
        chosen: whether the policy has this point.
    """

    def __init__(self, fit: Fit, index: int) -> None:
        certificate = fit.certificate
        found, questions = certificate.points[index], certificate.questions
        result = found.results[0]
        wrong, among = result.loss, result.n
        if result.target.kind == "abstention":
            wrong, among = found.wrong, found.let_through
        # The first that fails was tested too.
        last = certificate.first if certificate.chosen is None else certificate.chosen + 1
        self.number = index + 1
        self.relevance, self.confidence = found.point.relevance, found.point.confidence
        self.on_conflict = found.point.on_conflict
        self.coverage = found.let_through / questions if questions else None
        self.risk = wrong / among if among else None
        self.p_value = found.p_value
        self.tested = certificate.first <= index <= last
        self.chosen = index == certificate.chosen

    @classmethod
    def of(cls, fit: Fit) -> tuple[PathStep, ...]:
        """The points of the path in the order of the test, with its results."""
        return tuple(cls(fit, index) for index in range(len(fit.certificate.points)))
