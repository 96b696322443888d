"""Gates, and the data frame of a report."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.report._gates import check_gates, measures_frame, parse_gate

REPORT: dict[str, Any] = {
    "suite": "ookb",
    "abstention_rate": {"value": 0.84, "low": 0.72, "high": 0.91, "n": 55},
    "false_abstention_rate": {"value": None, "low": None, "high": None, "n": 0},
    "replies": {"n": 55, "abstained": 46, "tier_3": 6},
    "systems": [
        {"system_id": "gpt-4o·hyde·v1.2", "replies": {"abstained": 3}},
        {"system_id": "a[0]", "replies": {"abstained": 4}},
    ],
    "labels": None,
}


def test_a_gate_fails_where_the_report_does_what_it_must_not() -> None:
    for expression, failed in [
        ("abstention_rate<0.9", True),
        ("abstention_rate < 84%", False),
        ("abstention_rate<=84 %", True),
        ("abstention_rate.value<.5", False),
        ("abstention_rate.low<0.75", True),
        ("abstention_rate.high>=0.91", True),
        ("replies.n!=55", False),
        ("replies.abstained==46", True),
        ("tier_3>5", True),
        ("n<56", True),
        ("abstained<1e1", False),
        ("systems[gpt-4o·hyde·v1.2].replies.abstained>2", True),
        ("systems[a[0]].replies.abstained>4", False),
        ("systems[1].replies.abstained>=4", True),
        ("systems.0.replies.abstained>=4", False),
    ]:
        (result,) = check_gates(REPORT, [expression])

        assert result.failed is failed


@pytest.mark.parametrize("name", ["false_abstention_rate", "false_abstention_rate.low", "labels.x"])
def test_what_is_undefined_does_not_pass(name: str) -> None:
    (result,) = check_gates(REPORT, [f"{name}>0.5"])

    assert result.failed
    assert result.value is None
    assert result.text == f"{name} is undefined: nothing was measured that it rests on"


def test_results_come_in_the_order_of_the_gates() -> None:
    results = check_gates(REPORT, ["tier_3>5", "n<1"])

    assert [result.to_dict() for result in results] == [
        {"fail_if": "tier_3>5", "value": 6.0, "failed": True},
        {"fail_if": "n<1", "value": 55.0, "failed": False},
    ]
    assert results[0].text == "tier_3 is 6"


def test_a_system_whose_calls_failed_fails_its_gates() -> None:
    systems = [{"system_id": "a", "n": 9, "failed": 0.2}, {"system_id": "b", "n": 9, "failed": 0.0}]
    report = {"failed": 0.02, "systems": systems}

    passed, failed = check_gates(report, ["systems[a].n<1"])
    assert (passed.failed, failed.expression) == (False, "systems[a].failed>5%")
    for gates in (["systems[b].n<1"], ["systems[a].n<1", "systems[a].failed>50%"]):
        assert not any(gate.failed for gate in check_gates(report, gates))


_WORD = st.text(string.ascii_letters + "_0123456789", min_size=1, max_size=8)
_BRACKET = st.text(string.printable.replace("[", "").replace("]", ""), min_size=1, max_size=8)


@given(
    parts=st.lists(_WORD, min_size=1, max_size=4),
    inside=_BRACKET.filter(lambda text: text.strip() == text),
    sign=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    number=st.floats(-1e6, 1e6),
    blank=st.sampled_from(["", " "]),
)
def test_every_gate_is_read_as_it_was_written(
    parts: list[str], inside: str, sign: str, number: float, blank: str
) -> None:
    gate = parse_gate(f"{'.'.join(parts)}[{inside}].x{blank}{sign}{blank}{number!r}")

    assert gate.path == (*parts, inside, "x")
    assert gate.sign == sign
    assert gate.number == number


@given(st.text(max_size=40))
def test_no_text_does_more_than_be_refused_in_one_line(text: str) -> None:
    words = ""
    try:
        check_gates(REPORT, [text])
    except InputError as refused:
        words = str(refused)

    assert "\n" not in words


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


def test_each_measure_with_an_interval_is_a_line() -> None:
    frame = measures_frame(VALUES)

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
    frame = measures_frame(VALUES)

    for measure, value in zip(frame["measure"], frame["value"], strict=True):
        (result,) = check_gates(VALUES, [f"{measure}>2"])
        assert result.value == value or (result.value is None and value != value)
