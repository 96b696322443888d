"""Records that need no conversion are taken as they are; others are checked."""

from __future__ import annotations

import numpy as np
import pytest

from knowgate.calibration.records import CalibrationRecord, as_calibration_records

SOUND = CalibrationRecord("q", 0.5, None, True, None)
CHANGED = CalibrationRecord("q", np.float64(0.5), float("nan"), np.True_, None)  # type: ignore[arg-type]


def test_sound_records_stay_and_others_are_converted() -> None:
    stays, made = as_calibration_records([SOUND, CHANGED])
    assert stays == made == SOUND
    assert type(made.relevance) is float


@pytest.mark.parametrize(
    "changes",
    [
        {"question_id": ""},
        {"relevance": 1.5},
        {"confidence": -0.1},
        {"verdict": 2.0},
        {"weight": 0.0},
        {"weight": float("inf")},
        {"context_right": "perhaps"},
    ],
)
def test_a_record_out_of_range_is_named(changes: dict[str, object]) -> None:
    fields = {name: getattr(SOUND, name) for name in SOUND.__slots__}
    with pytest.raises(ValueError, match="record 1"):
        as_calibration_records([SOUND, CalibrationRecord(**fields | changes)])


def test_raw_signals_are_on_any_finite_scale() -> None:
    record = CalibrationRecord("q", -7.0, 3.0, True, None)
    assert as_calibration_records([record], raw=True) == [record]
    with pytest.raises(ValueError, match="record 0"):
        as_calibration_records([CalibrationRecord("q", float("inf"), None, True, None)], raw=True)
