"""How good the signals are as probabilities, before and after calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...calibration import (
    CalibratorChoice,
    Interval,
    ReliabilityDiagram,
    auroc,
    bootstrap_interval,
    brier_score,
    debiased_calibration_error,
    reliability_diagram,
)
from ...guard import Calibrator
from ._measured import MeasuredCase

_RESAMPLES = 200


SIGNALS: Mapping[
    str, tuple[Callable[[MeasuredCase], float | None], Callable[[MeasuredCase], bool | None]]
] = {
    "relevance": (lambda case: case.relevance, lambda case: case.context_right),
    "confidence": (lambda case: case.confidence, lambda case: case.closed_book_right),
}
"""Per signal its raw value and whether what it speaks of came true."""


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


def signal_values(name: str, cases: Sequence[MeasuredCase]) -> SignalValues:
    """The values of `relevance` or `confidence`.

    Where nothing was retrieved, relevance was not measured. The variants of a question
    share one closed-book answer, whose confidence counts once.
    """
    value, right = SIGNALS[name]
    found: dict[tuple[object, ...], tuple[float, bool, str]] = {}
    failed = 0
    for case in cases:
        raw = value(case)
        if name == "relevance" and case.nothing_retrieved:
            continue
        if raw is None:
            failed += 1
            continue
        came_true = bool(right(case))
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
        losses: log loss of each kind on folds kept back; empty where nothing was measured.
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
    cases: Sequence[MeasuredCase],
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
            return bootstrap_interval(
                statistic,
                probabilities,
                values.came_true,
                groups=values.units,
                resamples=_RESAMPLES,
                seed=seed,
            )

        return StatedProbabilities(
            reliability_diagram(probabilities, values.came_true),
            interval(debiased_calibration_error),
            interval(brier_score),
        )

    return SignalQuality(
        name=name,
        kind=choice.kind,
        reason=choice.reason,
        losses=dict(choice.losses),
        cases=len(values.raw),
        failed=values.failed,
        auroc=auroc(
            [score for score, true in values.pairs if true],
            [score for score, true in values.pairs if not true],
        ),
        before=stated(values.raw) if all(0.0 <= raw <= 1.0 for raw in values.raw) else None,
        after=stated(_applied(choice.calibrator, values.raw)),
    )


def _applied(calibrator: Calibrator, raw: Sequence[float]) -> list[float]:
    return [calibrator.apply(score) for score in raw]
