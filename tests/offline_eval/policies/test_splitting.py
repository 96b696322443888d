from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.calibration import CalibrationRecord
from knowgate.offline_eval.policies import CalibrationSet, calibrate_records
from tests.offline_eval.policies.measured import drawn


@given(st.lists(st.integers(0, 30), max_size=80), st.floats(0, 1), st.integers(0, 5))
def test_no_question_is_in_two_parts_and_none_is_lost(
    numbers: list[int], share: float, seed: int
) -> None:
    cases = [
        CalibrationRecord(f"q{i}", 0.5, 0.5, True, True, str(i % 3), case=str(number))
        for number, i in enumerate(numbers)
    ]

    parts = CalibrationRecord.split(cases, share=share, seed=seed)

    assert sorted((c for part in parts for c in part), key=lambda c: int(c.case)) == cases
    first, second = ({c.question_id for c in part} for part in parts)
    assert not first & second
    assert len(first) == round(share * len(first | second))


def test_a_group_is_in_every_part_as_often_as_among_all() -> None:
    cases = [CalibrationRecord(str(i), 0.5, 0.5, True, True, f"d{i % 2}") for i in range(400)]

    for part in CalibrationRecord.split(cases, share=0.5):
        assert 80 < sum(case.group == "d0" for case in part) < 120


def test_the_seed_alone_decides_and_another_one_decides_otherwise() -> None:
    cases = drawn(50).records

    assert CalibrationRecord.split(cases, share=0.5, seed=1) == CalibrationRecord.split(
        cases, share=0.5, seed=1
    )
    assert CalibrationRecord.split(cases, share=0.5, seed=1) != CalibrationRecord.split(
        cases, share=0.5, seed=2
    )


def test_the_order_of_the_file_does_not_matter() -> None:
    cases = drawn(50).records

    first = {c.question_id for c in CalibrationRecord.split(cases, share=0.5)[0]}

    assert {c.question_id for c in CalibrationRecord.split(cases[::-1], share=0.5)[0]} == first


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        CalibrationRecord.split(drawn(2).records, share=share)


def test_each_part_of_a_calibration_is_a_sample_of_all_documents() -> None:
    # One large document and eleven small ones: dealt whole, some would be missing.
    cases = tuple(
        CalibrationRecord(str(i), i % 7, None, i % 3 > 0, None, "large" if i % 2 else f"d{i % 22}")
        for i in range(1100)
    )

    found = calibrate_records(CalibrationSet(cases, "drawn"), risk=0.5, delta=0.1, share=0.8)

    for part in (found.learn, found.certify, found.test):
        assert len({case.group for case in part}) == 12
        assert 0.4 < sum(case.group == "large" for case in part) / len(part) < 0.6
