"""The measures of a report as a data frame."""

from __future__ import annotations

from typing import Any

from knowgate.offline_eval.report._gates import check_gates
from knowgate.offline_eval.report.document import Document

VALUES: dict[str, Any] = {
    "suite": "toy",
    "cases": 12,
    "auroc": {"value": 0.75, "low": 0.5, "high": 1.0, "n": 6},
    "left_out": {"abstention_rate": {"value": None, "low": None, "high": None, "n": 0}},
    "systems": [
        {"name": "gpt-4.1·hyde", "rate": {"value": 0.25, "low": 0.0, "high": 0.5, "n": 4}},
        {"rate": {"value": 0.5, "low": 0.25, "high": 0.75, "n": 4}},
    ],
}


def document() -> Document:
    return Document("toy", "Toy", "", (), (), (), VALUES)


def test_each_measure_with_an_interval_is_a_line() -> None:
    frame = document().to_pandas()

    assert [str(dtype) for dtype in frame.dtypes] == ["string", *["float64"] * 3, "Int64"]
    assert list(frame.columns) == ["measure", "value", "low", "high", "n"]
    assert list(frame["measure"]) == [
        "auroc",
        "left_out.abstention_rate",
        "systems[gpt-4.1·hyde].rate",
        "systems.1.rate",
    ]
    assert list(frame["n"]) == [6, 0, 4, 4]
    assert list(frame["value"].isna()) == [False, True, False, False]


def test_the_names_are_those_that_gates_take() -> None:
    frame = document().to_pandas()

    for measure, value in zip(frame["measure"], frame["value"], strict=True):
        (result,) = check_gates(VALUES, [f"{measure}>2"])
        assert result.value == value or (result.value is None and value != value)
