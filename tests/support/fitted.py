"""Records on which every kind of promise can be certified."""

from __future__ import annotations

import numpy as np

from knowgate.calibration import CalibrationRecord


def fitted_records(
    *, leak: bool = False, per_passage: int = 1, questions: int = 240, seed: int = 0
) -> list[CalibrationRecord]:
    """Records whose signals tell right from wrong well, but not always."""
    rng = np.random.default_rng(seed)
    if leak:
        return [
            record
            for i in range(questions)
            for record in CalibrationRecord.leave_one_out_pair(
                f"q{i}",
                float(rng.normal(2.0, 1.0)),
                float(rng.normal(0.0, 1.0)),
                group=f"p{i // per_passage}",
            )
        ]
    return [
        CalibrationRecord(
            f"q{i}",
            relevance=float(np.clip(rng.normal(0.8 if right else 0.2, 0.15), 0, 1)),
            confidence=float(np.clip(rng.normal(0.75 if known else 0.25, 0.15), 0, 1)),
            context_right=bool(right),
            closed_book_right=bool(known),
        )
        for i, (right, known) in enumerate(rng.random((questions, 2)) < 0.6)
    ]
