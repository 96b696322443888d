"""Splitting questions by their passage."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.calibration import CalibrationRecord

_GROUPS = st.lists(st.integers(0, 12).map(str), min_size=1, max_size=60)


def _records(groups: list[str]) -> list[CalibrationRecord]:
    return [_record(f"q{i}", group, i / 100) for i, group in enumerate(groups)]


def _record(name: str, group: str, relevance: float) -> CalibrationRecord:
    return CalibrationRecord(name, relevance, None, False, None, group=group)


def _split(
    records: list[CalibrationRecord], *, share: float = 0.5, seed: int = 0
) -> tuple[list[CalibrationRecord], list[CalibrationRecord]]:
    return CalibrationRecord.split(records, share=share, seed=seed)


@settings(derandomize=True, deadline=None)
@given(_GROUPS, st.sampled_from([0.1, 0.5, 0.9]), st.integers(0, 5))
def test_the_parts_share_no_group_and_lose_no_question(
    groups: list[str], share: float, seed: int
) -> None:
    records = _records(groups)

    first, second = _split(records, share=share, seed=seed)

    assert sorted([*first, *second], key=records.index) == records
    assert not {r.group for r in first} & {r.group for r in second}
    assert first == [r for r in records if r in first]
    # Large groups are dealt as small ones, so that both parts are samples of the groups.
    assert len({r.group for r in first}) == round(share * len(set(groups)))


def test_the_split_is_the_same_for_the_same_seed_and_whatever_the_order() -> None:
    records = _records([str(i // 3) for i in range(60)])

    first, _ = _split(records, seed=4)
    turned, _ = _split(records[::-1], seed=4)

    assert {r.question_id for r in first} == {r.question_id for r in turned}
    assert first != _split(records, seed=5)[0]


def test_variants_of_a_question_do_not_count_for_the_share() -> None:
    records = [r for r in _records([str(i) for i in range(9)]) for _ in range(1 + int(r.group) % 3)]

    first, second = _split(records, share=4 / 9)

    assert len({r.question_id for r in first}) == 4
    assert not {r.question_id for r in first} & {r.question_id for r in second}
