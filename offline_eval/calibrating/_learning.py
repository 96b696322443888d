"""Calibrators, and measured cases on their scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...calibration import CalibrationRecord, CalibratorChoice, choose_calibrator
from ...guard import Calibrator, IdentityCalibrator
from ._measured import MeasuredCase
from ._signal_quality import SIGNALS, signal_values


def choose_calibrators(
    cases: Sequence[MeasuredCase], *, seed: int = 0
) -> dict[str, CalibratorChoice]:
    """Per signal that was measured the calibrator of its raw values.

    Relevance is calibrated to "the context's answer is right", confidence to "the
    model's own answer is right"; not known counts as wrong.

    Args:
        cases: kept for learning.
        seed: of the cross-validation.
    """
    found: dict[str, CalibratorChoice] = {}
    for name in SIGNALS:
        values = signal_values(name, cases)
        if values.raw:
            found[name] = choose_calibrator(
                values.raw, values.came_true, groups=values.units, seed=seed
            )
    return found


def calibrator_of(choices: Mapping[str, CalibratorChoice], name: str) -> Calibrator:
    """The calibrator of a signal; the identity where it was never measured."""
    return choices[name].calibrator if name in choices else IdentityCalibrator()


def calibration_records(
    cases: Sequence[MeasuredCase], relevance: Calibrator, confidence: Calibrator
) -> list[CalibrationRecord]:
    """The cases with calibrated signals; without passages relevance is 0, and no context right."""
    return [
        CalibrationRecord(
            question_id=case.question_id,
            relevance=0.0 if case.nothing_retrieved else _applied(relevance, case.relevance),
            confidence=_applied(confidence, case.confidence),
            context_right=None if case.nothing_retrieved else case.context_right,
            closed_book_right=case.closed_book_right,
            group=case.group,
            conflict=case.conflict,
            weight=case.weight,
            case=case.case,
        )
        for case in cases
    ]


def _applied(calibrator: Calibrator, raw: float | None) -> float | None:
    return None if raw is None else calibrator.apply(raw)
