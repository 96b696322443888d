"""Calibrators of the signals, and records with calibrated signals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...calibration import CalibrationRecord, CalibratorChoice
from ...calibration.risk import PolicyBinding
from ...guard.policy import Calibrator, IdentityCalibrator
from ._quality import SIGNALS, signal_values


def choose_calibrators(
    records: Sequence[CalibrationRecord], *, seed: int = 0
) -> dict[str, CalibratorChoice]:
    """Choose a calibrator for the raw values of each signal that was measured.

    Relevance is calibrated to "the reply from the context is right", confidence to "the
    reply from memory is right"; not known counts as wrong.
    """
    found: dict[str, CalibratorChoice] = {}
    for name in SIGNALS:
        values = signal_values(name, records)
        if values.raw:
            found[name] = CalibratorChoice.among(
                values.raw, values.came_true, groups=values.units, seed=seed
            )
    return found


def calibrator_of(choices: Mapping[str, CalibratorChoice], name: str) -> Calibrator:
    """The calibrator of a signal; the identity where it was never measured."""
    return choices[name].calibrator if name in choices else IdentityCalibrator()


def calibrated_records(
    records: Sequence[CalibrationRecord], binding: PolicyBinding
) -> list[CalibrationRecord]:
    """The records with calibrated signals; without passages relevance is 0, no context right."""
    relevance, confidence = binding.relevance_calibrator, binding.confidence_calibrator
    return [
        replace(
            record,
            relevance=0.0 if record.nothing_retrieved else _applied(relevance, record.relevance),
            confidence=_applied(confidence, record.confidence),
            context_right=None if record.nothing_retrieved else record.context_right,
        )
        for record in records
    ]


def _applied(calibrator: Calibrator, raw: float | None) -> float | None:
    return None if raw is None else calibrator.apply(raw)
