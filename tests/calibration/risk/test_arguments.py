"""What `fit_policy` refuses, and what it takes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk import fit_policy
from knowgate.calibration.risk._path import diagonal_path
from knowgate.guard import Route
from tests.calibration.risk.populations import calibrated


def _sample(n: int) -> list[CalibrationRecord]:
    return calibrated(n, np.random.default_rng(0)).records()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"question_id": ""}, "question_id is empty"),
        ({"relevance": True}, "relevance must be a number"),
        ({"relevance": "0.5"}, "relevance must be a number"),
        ({"weight": "1"}, "weight must be above 0"),
        ({"context_right": [True]}, "context_right must be true"),
    ],
)
def test_a_record_with_a_field_of_the_wrong_kind_is_named(
    given: dict[str, object], message: str
) -> None:
    whole: dict[str, object] = {"question_id": "q", "relevance": 0.5, "confidence": 0.5}
    whole |= {"context_right": True, "closed_book_right": True} | given
    with pytest.raises(ValueError, match=f"record 0: {message}"):
        fit_policy([CalibrationRecord(**whole)], risk=0.1, delta=0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize("record", [None, {}, 3])
def test_what_is_no_record_is_said_to_be_none(record: object) -> None:
    with pytest.raises(ValueError, match="record 0 has no question_id"):
        fit_policy([record], risk=0.1, delta=0.1)  # type: ignore[list-item]


@pytest.mark.parametrize(
    "settings",
    [
        {"risk": "0.1"},
        {"risk": [0.1]},
        {"risk": []},
        {"path": [(0.5,)]},
        {"path": [(0.5, 0.5, "abstain")]},
        {"path": [0.5]},
        {"path": []},
        {"conflict_between": "neighbours"},
        {"attempt": 0},
        {"attempt": 1.0},
        {"allowed_routes": "follow_context"},
        {"allowed_routes": ("follow",)},
    ],
)
def test_a_setting_of_the_wrong_kind_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"risk|point|conflict_between|attempt|Route|routes"):
        fit_policy(_sample(30), **{"risk": 0.1, "delta": 0.1, **settings})  # type: ignore[arg-type]


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


@pytest.mark.parametrize(("risk", "delta"), [(0.0, 0.1), (1.0, 0.1), (0.1, 0.0), (0.1, 1.5)])
def test_bounds_out_of_range_are_refused(risk: float, delta: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        fit_policy(_sample(50), risk=risk, delta=delta)


def test_a_path_with_a_route_that_is_not_allowed_is_refused() -> None:
    with pytest.raises(ValueError, match="allowed_routes"):
        fit_policy(
            _sample(50),
            risk=0.1,
            delta=0.1,
            path=diagonal_path(),
            allowed_routes=(Route.FOLLOW_CONTEXT,),
        )
