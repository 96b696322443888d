from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.guard import InputError
from knowgate.offline_eval.report._gates import check_gates, parse_gate

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
