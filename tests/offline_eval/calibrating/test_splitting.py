from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowgate.offline_eval.calibrating import MeasuredCase, split_cases
from tests.offline_eval.calibrating.measured import drawn


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=80), st.integers(0, 5))
def test_no_question_is_in_two_parts_and_no_group_unless_there_are_few(
    drawn_ones: list[tuple[int, int]], seed: int
) -> None:
    group_of: dict[str, str] = {}
    cases = []
    for number, (i, group) in enumerate(drawn_ones):
        # Every third question is a group of its own.
        own = group_of.setdefault(f"q{i}", "" if i % 3 == 0 else str(group))
        cases.append(MeasuredCase(f"q{i}", 0.5, 0.5, True, True, own, case=str(number)))

    parts = split_cases(cases, (0.3, 0.5, 0.2), seed=seed)

    assert sorted((c for part in parts for c in part), key=lambda c: int(c.case)) == cases
    questions = [{c.question_id for c in part} for part in parts]
    assert len(set().union(*questions)) == sum(map(len, questions))
    units = [{c.unit for c in part} for part in parts]
    if len(set().union(*units)) >= 10:
        assert len(set().union(*units)) == sum(map(len, units))


def test_a_few_domains_are_each_in_every_part() -> None:
    cases = [MeasuredCase(str(i), 0.5, 0.5, True, True, f"d{i % 2}") for i in range(40)]

    for part in split_cases(cases, (1, 1)):
        assert {case.group for case in part} == {"d0", "d1"}


def test_the_shares_are_of_questions_not_of_cases() -> None:
    cases = drawn(400, variants=3).cases

    parts = split_cases(cases, (0.3, 0.5, 0.2), seed=3)

    sizes = [len({c.question_id for c in part}) for part in parts]
    assert sum(sizes) == 400
    assert all(abs(size - wanted) <= 2 for size, wanted in zip(sizes, (120, 200, 80), strict=True))


def test_the_seed_alone_decides_and_another_one_decides_otherwise() -> None:
    cases = drawn(50).cases

    assert split_cases(cases, (1, 1), seed=1) == split_cases(cases, (1, 1), seed=1)
    assert split_cases(cases, (1, 1), seed=1) != split_cases(cases, (1, 1), seed=2)


def test_the_order_of_the_file_does_not_matter() -> None:
    cases = drawn(50).cases

    first = {c.question_id for c in split_cases(cases, (1, 1))[0]}

    assert {c.question_id for c in split_cases(cases[::-1], (1, 1))[0]} == first


def test_a_part_without_a_share_stays_empty() -> None:
    assert split_cases(drawn(20).cases, (1, 1, 0))[2] == []


@pytest.mark.parametrize("shares", [(), (0.0,), (0.5, -0.1)])
def test_shares_that_are_none_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="shares"):
        split_cases(drawn(2).cases, shares)
