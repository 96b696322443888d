"""The measures of a report as a data frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowgate.guard import InputError
from knowgate.offline_eval.report._gates import check_gates
from knowgate.offline_eval.report.document import Document
from knowgate.offline_eval.report.writing import ReportWriter

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


def test_a_written_report_gives_the_same_lines(tmp_path: Path) -> None:
    written = ReportWriter(tmp_path, ("json",)).write(document())

    assert written.to_pandas().equals(document().to_pandas())


def test_a_report_that_was_not_written_as_json_is_an_error(tmp_path: Path) -> None:
    written = ReportWriter(tmp_path, ("md",)).write(document())

    with pytest.raises(InputError, match=r"report\.json"):
        written.to_pandas()
