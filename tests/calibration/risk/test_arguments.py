"""What `fit_policy` refuses, and what it takes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import fit_policy
from knowgate.guard import Route
from tests.calibration.risk.populations import calibrated, diagonal_path


def _sample(n: int) -> list[CalibrationRecord]:
    return calibrated(n, np.random.default_rng(0)).records()


def test_ids_and_numbers_of_other_types_are_taken_as_they_read() -> None:
    records = [
        CalibrationRecord(i, np.float32(0.9), None, np.bool_(True), None, group=i // 2)  # type: ignore[arg-type]
        for i in range(300)
    ]
    policy = fit_policy(records, risk=np.float64(0.1), delta=0.1).policy
    assert policy.guarantee is not None
    assert policy.guarantee.certified


@pytest.mark.parametrize(
    ("field", "value"),
    [("relevance", 1.2), ("confidence", -0.1), ("weight", 0.0), ("context_right", 0.7)],
)
def test_a_record_out_of_range_is_named(field: str, value: float) -> None:
    given = {"question_id": "q", "relevance": 0.5, "confidence": 0.5, "context_right": True,
             "closed_book_right": True, "weight": 1.0}  # fmt: skip
    with pytest.raises(ValueError, match=f"record 1: .*{field}|record 1: {field}"):
        fit_policy(
            [SimpleNamespace(**given), SimpleNamespace(**{**given, field: value})],
            risk=0.1,
            delta=0.1,
        )


def test_a_path_with_a_route_that_is_not_allowed_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed_routes"):
        fit_policy(
            _sample(50),
            risk=0.1,
            delta=0.1,
            path=diagonal_path(),
            allowed_routes=(Route.FOLLOW_CONTEXT,),
        )
