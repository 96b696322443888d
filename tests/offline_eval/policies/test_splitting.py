from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knowgate.calibration import CalibrationRecord
from knowgate.offline_eval.policies import calibrate_records
from knowgate.offline_eval.policies.records import CalibrationSet
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
    first, second = ({c.group for c in part} for part in parts)
    assert not first & second
    assert len(first) == round(share * len(first | second))


def test_a_question_whose_records_name_two_groups_is_in_one_part() -> None:
    cases = [
        CalibrationRecord(f"q{i}", 0.5, 0.5, True, True, f"d{i + k}", case=str(k))
        for i in range(40)
        for k in range(2)
    ]

    for order in (cases, cases[::-1]):
        first, second = (
            {c.question_id for c in p} for p in CalibrationRecord.split(order, share=0.5)
        )
        assert not first & second
    assert first == {c.question_id for c in CalibrationRecord.split(cases, share=0.5)[0]}


def test_the_seed_alone_decides_and_another_one_decides_otherwise() -> None:
    cases = drawn(50).records

    assert CalibrationRecord.split(cases, share=0.5, seed=1) == CalibrationRecord.split(
        cases, share=0.5, seed=1
    )
    assert CalibrationRecord.split(cases, share=0.5, seed=1) != CalibrationRecord.split(
        cases, share=0.5, seed=2
    )


def test_no_document_is_in_two_parts_of_a_calibration() -> None:
    cases = tuple(
        CalibrationRecord(str(i), i % 7, None, i % 3 > 0, None, f"d{i % 50}") for i in range(500)
    )

    found = calibrate_records(CalibrationSet(cases, "drawn"), risk=0.5, delta=0.1, share=0.8)

    groups = [{case.group for case in part} for part in (found.learn, found.certify, found.test)]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 50
