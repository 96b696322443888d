"""P-values and procedures that use several; splits by passage; the columns of routes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk.certificate import (
    ROUTE_CODES,
    Evidence,
    costs,
    hoeffding_bentkus_p_values,
)
from knowgate.calibration.risk.risks import LossTable, PathPoint
from knowgate.calibration.statistics import binomial_p_value
from knowgate.guard import Fingerprint, Policy, Route
from knowgate.guard.contracts import ConflictBetween


def _hoeffding_bentkus(loss: float, n: int, risk: float) -> float:
    return float(hoeffding_bentkus_p_values(np.asarray([loss]), n, risk)[0])


def test_the_binomial_tail_equals_a_sum_by_hand() -> None:
    by_hand = sum(math.comb(20, k) * 0.1**k * 0.9 ** (20 - k) for k in range(2))
    assert binomial_p_value(1, 20, 0.1) == pytest.approx(by_hand, rel=1e-12)


def test_hoeffding_bentkus_equals_its_formula_by_hand() -> None:
    # Mean loss .05 against .1: exp(-100 · KL(.05 || .1)), and e times the tail at 5.
    entropy = 0.05 * math.log(0.05 / 0.1) + 0.95 * math.log(0.95 / 0.9)
    tail = sum(math.comb(100, k) * 0.1**k * 0.9 ** (100 - k) for k in range(6))
    expected = min(math.exp(-100 * entropy), math.e * tail)
    assert _hoeffding_bentkus(5.0, 100, 0.1) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("risk", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("n", [20, 100, 1000])
def test_hoeffding_bentkus_equals_mapie(n: int, risk: float) -> None:
    from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

    for mean in (0.0, 0.013, 0.04, 0.1, 0.35):
        theirs = compute_hoeffding_bentkus_p_value(np.asarray([mean]), n, np.asarray([risk]))
        ours = _hoeffding_bentkus(mean * n, n, risk)
        # Theirs is not cut off at 1, and rounds n · mean up with its floating error.
        assert ours == pytest.approx(min(1.0, float(np.ravel(theirs)[0])), rel=1e-9)


@given(st.integers(1, 300), st.floats(0.001, 0.999), st.data())
def test_for_errors_the_exact_tail_is_never_larger(
    n: int, risk: float, data: st.DataObject
) -> None:
    errors = data.draw(st.integers(0, n))
    assert binomial_p_value(errors, n, risk) <= _hoeffding_bentkus(errors, n, risk) + 1e-12


def test_a_sum_of_costs_with_rounding_error_costs_no_whole_question() -> None:
    assert 0.1 + 0.2 > 0.3
    assert _hoeffding_bentkus(10 * (0.1 + 0.2), 40, 0.2) == pytest.approx(
        _hoeffding_bentkus(3.0, 40, 0.2)
    )


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


signals = st.none() | st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0])
thresholds = st.none() | st.sampled_from([0.0, 0.3, 0.5, 1.0])
records = st.builds(
    CalibrationRecord,
    question_id=st.uuids().map(str),
    relevance=signals,
    confidence=signals,
    context_right=st.booleans(),
    closed_book_right=st.booleans(),
    conflict=st.none() | st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.lists(records, min_size=1, max_size=8),
    thresholds,
    thresholds,
    st.booleans(),
    st.sampled_from(["memory", "passages", "both"]),
)
def test_routes_in_columns_are_those_of_the_policy(
    found: list[CalibrationRecord],
    relevance: float | None,
    confidence: float | None,
    abstains: bool,
    between: ConflictBetween,
) -> None:
    checks = abstains and (confidence is not None or between == "passages")
    policy = Policy(
        scorer=Fingerprint(kind="lexical"),
        relevance_threshold=relevance,
        confidence_threshold=confidence,
        allowed_routes=tuple(Route),
        check_conflict=checks,
        conflict_between=between,
        on_conflict="abstain",
    )
    point = PathPoint(relevance, confidence, "abstain" if checks else "ignore")
    # Beside another point, so that points with and without a conflict rule mix.
    codes = Evidence.route_codes(Evidence.of(found, between), [PathPoint(0.5, 0.5), point])[1]
    expected = [policy.route(r.relevance, r.confidence, r.conflict) for r in found]
    assert [ROUTE_CODES[code] for code in codes] == expected


def test_each_mishap_costs_what_the_table_says() -> None:
    right_of = {  # (context, memory) right
        "follow right": CalibrationRecord("1", 0.9, 0.1, True, False),
        "follow wrong": CalibrationRecord("2", 0.9, 0.1, False, True),
        "answer right": CalibrationRecord("3", 0.1, 0.9, False, True),
        "answer wrong": CalibrationRecord("4", 0.1, 0.9, True, False),
        "abstain, nobody knew": CalibrationRecord("5", 0.1, 0.1, False, False),
        "abstain, memory knew": CalibrationRecord("6", 0.1, 0.1, False, True),
    }
    evidence, points = Evidence.of(list(right_of.values())), [PathPoint(0.5, 0.5)]
    table = LossTable(wrong_follow=1.0, wrong_answer=0.5, false_abstention=0.2)
    found = costs(evidence, evidence.route_codes(points), points, table)
    assert found.tolist() == [[0.0, 1.0, 0.0, 0.5, 0.0, 0.2]]
