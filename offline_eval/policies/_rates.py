"""What a policy does with calibration records, and how often it is wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any

import numpy as np

from ...calibration import (
    CalibrationRecord,
    CalibratorChoice,
    Interval,
    ReliabilityDiagram,
    SelectiveCurve,
)
from ...calibration.records import Records
from ...calibration.risk import Fit
from ...calibration.risk.costs import LeakFold
from ...calibration.risk.fit import PolicyBinding
from ...calibration.statistics import Floats
from ...guard.decision import Route
from ...guard.policy import Policy
from ..report.what_if import WhatIfCase
from ..run.grouping import grouped

_NO_VARIANCE, _ROUNDING = 1e-12, 1e-9


class Outcome:
    """One case under a policy, as a guard with it would decide.

    Args:
        policy: decides.
        case: as measured.

    Attributes:
        case: as measured.
        shown: as decided: with calibrated signals, None where one failed; what is not known to be
            right counts as wrong.
        route: where the policy sends it.
        passes: anything is answered.
        wrong: what is answered is wrong.
    """

    def __init__(self, policy: Policy, case: CalibrationRecord) -> None:
        relevance, confidence = calibrated_signals(case, policy)
        self.case = case
        self.shown = WhatIfCase(
            relevance,
            confidence,
            context_right=bool(case.context_right),
            memory_right=bool(case.closed_book_right),
            conflict=case.conflict,
            nothing_retrieved=case.nothing_retrieved,
            weight=case.weight,
        )
        self.route = self.shown.route(policy)
        self.passes = self.route is not Route.ABSTAIN
        self.wrong = self.shown.replied(self.route, stored=False) == "wrong"


def outcomes_under(policy: Policy, cases: Records) -> list[Outcome]:
    """Each case as a guard with this policy would decide it."""
    return [Outcome(policy, case) for case in cases]


def calibrated_signals(
    case: CalibrationRecord, by: Policy | PolicyBinding
) -> tuple[float | None, float | None]:
    """Relevance and confidence in [0, 1]; where nothing was retrieved relevance is 0."""
    found = None if case.relevance is None else by.relevance_calibrator.apply(case.relevance)
    known = None if case.confidence is None else by.confidence_calibrator.apply(case.confidence)
    return (0.0 if case.nothing_retrieved else found), known


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
        self.false_abstention = rate(
            lambda o: not o.passes, [o for o in outcomes if o.shown.answerable]
        )

    def to_dict(self) -> dict[str, Any]:
        """The figures, as JSON."""
        return vars(self)


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


def passes(policy: Policy, record: CalibrationRecord) -> bool:
    """Whether a policy follows the context; without confidence it answers nothing else."""
    raw = record.relevance
    relevance = None if raw is None else policy.relevance_calibrator.apply(raw)
    return relevance is not None and policy.route(relevance, None) is Route.FOLLOW_CONTEXT


def leak_rates_of(policy: Policy, records: Records) -> LeakRates:
    """Compute the rates on held-out records; those without relevance are left out."""
    return _leak_rates([(r, not passes(policy, r)) for r in records if r.relevance is not None])


def leak_rates_by(folds: Sequence[LeakFold], beside: Records = ()) -> LeakRates:
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


# Per signal the outcome that it predicts; both are attributes of a record.
SIGNALS = {"relevance": "context_right", "confidence": "closed_book_right"}


# Of each case that a signal was measured on: its raw value, whether that came true (not known
# counts as not), and its unit, the group or the question on its own.
SignalValues = tuple[list[float], list[bool], list[str]]


def signal_values(name: str, cases: Records) -> tuple[SignalValues, int]:
    """The values of `relevance` or `confidence`, and the number of cases without one.

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
    return (list(raws), list(outcomes), list(units)), failed


def signal_qualities(
    choices: Mapping[str, CalibratorChoice], cases: Records, *, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Say of each signal that has a value how well it and its calibrated form do.

    Args:
        choices: calibrators by the name of their signal, `relevance` or `confidence`.
        cases: that the calibrators were not fitted on.
        seed: of the resampling behind the intervals.

    Returns:
        Per signal the calibrator's kind, why this one, and its losses on held-out folds; cases
        with and without a value; AUROC; and how probabilities compare with what came true,
        before (None where raw values are no probabilities) and after calibration.
    """
    found = {}
    for name, choice in choices.items():
        values, failed = signal_values(name, cases)
        raws, came_true, _ = values
        if not raws:
            continue
        pairs = list(zip(raws, came_true, strict=True))
        right, wrong = ([score for score, true in pairs if true is came] for came in (True, False))
        stated = all(0.0 <= raw <= 1.0 for raw in raws)
        calibrated = [choice.calibrator.apply(score) for score in raws]
        found[name] = {
            "calibrator": choice.kind,
            "reason": choice.reason,
            "losses": choice.losses,
            "cases": len(raws),
            "failed": failed,
            "auroc": SelectiveCurve.auroc(right, wrong),
            "before": _stated(raws, values, seed) if stated else None,
            "after": _stated(calibrated, values, seed),
        }
    return found


def _stated(probabilities: Sequence[float], values: SignalValues, seed: int) -> dict[str, Any]:
    """How probabilities compare with what came true: errors with intervals, and bins."""
    _, came_true, units = values
    interval = partial(Interval.bootstrap, groups=units, resamples=_RESAMPLES, seed=seed)
    return {
        "calibration_error": interval(ReliabilityDiagram.debiased_error, probabilities, came_true),
        "brier": interval(ReliabilityDiagram.brier_score, probabilities, came_true),
        "bins": ReliabilityDiagram.of(probabilities, came_true).bins,
    }


_RANKINGS = {
    "context alone, by relevance": ("relevance",),
    "memory alone, by confidence": ("confidence",),
    "context or memory, by the larger": ("relevance", "confidence"),
}


def selective_qualities(
    policy: Policy, cases: Records, *, risk: float, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Rank cases by relevance, by confidence, and by the larger of the two, the surest first.

    Args:
        policy: for its calibrators.
        cases: that the calibrators were not fitted on.
        risk: the bound that coverage is read off at.
        seed: of the resampling behind the intervals.

    Returns:
        Per ranking the number of cases, the areas under its curves with their intervals, the
        largest share accepted at no more than the bound, as it was seen here, and the curve.
    """
    outcomes = outcomes_under(policy, cases)
    found = {}
    for name, signals in _RANKINGS.items():
        known = [o for o in outcomes if None not in [getattr(o.shown, s) for s in signals]]
        if not known:
            continue
        ranked = [(one, max(signals, key=partial(getattr, one.shown))) for one in known]
        sure = [getattr(one.shown, signal) for one, signal in ranked]
        wrong = [not getattr(one.case, SIGNALS[signal]) for one, signal in ranked]
        units = [":".join(one.case.unit) for one in known]
        interval = partial(Interval.bootstrap, groups=units, resamples=_RESAMPLES, seed=seed)
        found[name] = {
            "cases": len(ranked),
            "aurc": interval(SelectiveCurve.aurc, sure, wrong),
            "excess_aurc": interval(SelectiveCurve.excess_aurc, sure, wrong),
            "augrc": interval(SelectiveCurve.augrc, sure, wrong),
            "coverage_at_risk": SelectiveCurve.coverage_at_risk(sure, wrong, risk),
            "curve": SelectiveCurve.of(sure, wrong),
        }
    return found


def path_steps(fit: Fit) -> tuple[dict[str, Any], ...]:
    """Return the points of the declared path in the order of the test, with its results.

    `coverage` is the share of the certifying questions that a point lets through, `risk` that
    of the first bound: the share that went wrong, or the mean cost; both None without questions.
    `p_value` is of "some bound is broken"; of a coverage, of "too little is let through".
    """
    certificate, steps = fit.certificate, []
    questions = certificate.questions
    # The first that fails was tested too.
    last = certificate.first if certificate.chosen is None else certificate.chosen + 1
    for index, found in enumerate(certificate.points):
        result = found.results[0]
        wrong, among = result.loss, result.n
        if result.kind == "abstention":
            wrong, among = found.wrong, found.let_through
        step = {
            "number": index + 1,
            **asdict(found.point),
            "coverage": found.let_through / questions if questions else None,
            "risk": wrong / among if among else None,
            "p_value": found.p_value,
            "tested": certificate.first <= index <= last,
            "chosen": index == certificate.chosen,
        }
        steps.append(step)
    return tuple(steps)
