"""How good the signals are as probabilities, before and after calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...calibration import (
    CalibrationRecord,
    CalibratorChoice,
    Interval,
    ReliabilityDiagram,
    SelectiveCurve,
)
from ...calibration.risk import Fit
from ...guard.policy import Calibrator, Policy
from ._rates import Outcome, outcomes_under

_RESAMPLES = 200


SIGNALS = {"relevance": "context_right", "confidence": "closed_book_right"}
"""Per signal the outcome that it predicts; both are attributes of a record."""


@dataclass(frozen=True, slots=True)
class SignalValues:
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

    @property
    def pairs(self) -> list[tuple[float, bool]]:
        """Value and outcome of each case."""
        return list(zip(self.raw, self.came_true, strict=True))


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
        diagram: bins of stated probability against observed share.
        calibration_error: debiased, with its interval over questions' groups.
        brier: mean squared error, likewise.
    """

    diagram: ReliabilityDiagram
    calibration_error: Interval
    brier: Interval


@dataclass(frozen=True, slots=True)
class SignalQuality:
    """One signal, on questions that its calibrator was not fitted on.

    Attributes:
        name: `relevance` or `confidence`.
        kind: of the calibrator.
        reason: why this kind.
        losses: log loss of each kind on held-out folds; empty where nothing was measured.
        cases: that it was measured on here.
        failed: cases without a value.
        auroc: how well it tells right from wrong, None where all went alike.
        before: the raw values; None where they are no probabilities.
        after: the calibrated values.
    """

    name: str
    kind: str
    reason: str
    losses: Mapping[str, float]
    cases: int
    failed: int
    auroc: float | None
    before: StatedProbabilities | None
    after: StatedProbabilities


def signal_quality(
    name: str,
    choice: CalibratorChoice,
    cases: Sequence[CalibrationRecord],
    *,
    seed: int = 0,
) -> SignalQuality | None:
    """The quality of `relevance` or `confidence`; None where no case has a value.

    Args:
        name: of the signal.
        choice: the calibrator and why.
        cases: that the calibrator was not fitted on.
        seed: of the resampling behind the intervals.
    """
    values = signal_values(name, cases)
    if not values.raw:
        return None

    def stated(probabilities: Sequence[float]) -> StatedProbabilities:
        def interval(statistic: Callable[..., float | None]) -> Interval:
            return Interval.bootstrap(
                statistic,
                probabilities,
                values.came_true,
                groups=values.units,
                resamples=_RESAMPLES,
                seed=seed,
            )

        return StatedProbabilities(
            ReliabilityDiagram.of(probabilities, values.came_true),
            interval(ReliabilityDiagram.debiased_error),
            interval(ReliabilityDiagram.brier_score),
        )

    return SignalQuality(
        name=name,
        kind=choice.kind,
        reason=choice.reason,
        losses=dict(choice.losses),
        cases=len(values.raw),
        failed=values.failed,
        auroc=SelectiveCurve.auroc(
            [score for score, true in values.pairs if true],
            [score for score, true in values.pairs if not true],
        ),
        before=stated(values.raw) if all(0.0 <= raw <= 1.0 for raw in values.raw) else None,
        after=stated(_applied(choice.calibrator, values.raw)),
    )


def _applied(calibrator: Calibrator, raw: Sequence[float]) -> list[float]:
    return [calibrator.apply(score) for score in raw]


@dataclass(frozen=True, slots=True)
class SelectiveQuality:
    """One way of ranking cases, the surest first.

    Attributes:
        name: of the ranking, in words.
        cases: that it ranks; those whose signal failed are left out.
        curve: risk against coverage.
        aurc: area under it, with its interval over questions' groups.
        excess: the same, less that of the best ranking there is.
        augrc: area under the generalised curve.
        coverage: largest share accepted at no more than the bound, as it was seen here;
            None where no threshold stays within it.
    """

    name: str
    cases: int
    curve: SelectiveCurve
    aurc: Interval
    excess: Interval
    augrc: Interval
    coverage: float | None


def selective_qualities(
    policy: Policy, cases: Sequence[CalibrationRecord], *, risk: float, seed: int = 0
) -> list[SelectiveQuality]:
    """By relevance alone, by confidence alone, and by the larger of the two.

    Args:
        policy: for its calibrators.
        cases: that the calibrators were not fitted on.
        risk: the bound that coverage is read off at.
        seed: of the resampling behind the intervals.
    """
    outcomes = outcomes_under(policy, cases)
    rankings: list[tuple[str, Callable[[Outcome], tuple[float, bool] | None]]] = [
        ("context alone, by relevance", _by_relevance),
        ("memory alone, by confidence", _by_confidence),
        ("context or memory, by the larger", _by_the_larger),
    ]
    found = []
    for name, ranking in rankings:
        ranked = [(o, place) for o in outcomes if (place := ranking(o)) is not None]
        if not ranked:
            continue
        sure = [place[0] for _, place in ranked]
        wrong = [place[1] for _, place in ranked]
        units = [":".join(o.case.unit) for o, _ in ranked]

        def interval(
            statistic: Callable[..., float | None],
            sure: Sequence[float] = sure,
            wrong: Sequence[bool] = wrong,
            units: Sequence[str] = units,
        ) -> Interval:
            return Interval.bootstrap(
                statistic, sure, wrong, groups=units, resamples=_RESAMPLES, seed=seed
            )

        found.append(
            SelectiveQuality(
                name=name,
                cases=len(ranked),
                curve=SelectiveCurve.of(sure, wrong),
                aurc=interval(SelectiveCurve.aurc),
                excess=interval(SelectiveCurve.excess_aurc),
                augrc=interval(SelectiveCurve.augrc),
                coverage=SelectiveCurve.coverage_at_risk(sure, wrong, risk),
            )
        )
    return found


def _by_relevance(outcome: Outcome) -> tuple[float, bool] | None:
    if outcome.relevance is None:
        return None
    return outcome.relevance, not outcome.case.context_right


def _by_confidence(outcome: Outcome) -> tuple[float, bool] | None:
    if outcome.confidence is None:
        return None
    return outcome.confidence, not outcome.case.closed_book_right


def _by_the_larger(outcome: Outcome) -> tuple[float, bool] | None:
    context, memory = _by_relevance(outcome), _by_confidence(outcome)
    if context is None or memory is None:
        return None
    return context if context[0] >= memory[0] else memory


@dataclass(frozen=True, slots=True)
class PathStep:
    """One point of the path, on the questions that certify.

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

    number: int
    relevance: float | None
    confidence: float | None
    on_conflict: str
    coverage: float | None
    risk: float | None
    p_value: float
    tested: bool
    chosen: bool


def steps_of(fit: Fit) -> list[PathStep]:
    """The points of the path in the order of the test, with its results."""
    certificate = fit.certificate
    # The first that fails was tested too.
    last = certificate.first if certificate.chosen is None else certificate.chosen + 1
    steps = []
    for index, found in enumerate(certificate.points):
        result = found.results[0]
        wrong, among = result.loss, result.n
        if result.target.kind == "abstention":
            wrong, among = found.wrong, found.let_through
        questions = certificate.questions
        steps.append(
            PathStep(
                number=index + 1,
                relevance=found.point.relevance,
                confidence=found.point.confidence,
                on_conflict=found.point.on_conflict,
                coverage=found.let_through / questions if questions else None,
                risk=wrong / among if among else None,
                p_value=found.p_value,
                tested=certificate.first <= index <= last,
                chosen=index == certificate.chosen,
            )
        )
    return steps
