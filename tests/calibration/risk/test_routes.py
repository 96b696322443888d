"""The columns of routes are those of the policy itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowgate.calibration import CalibrationRecord
from knowgate.calibration.risk.certificate import ROUTE_CODES, Evidence, costs
from knowgate.calibration.risk.path import PathPoint
from knowgate.calibration.risk.risks import LossTable
from knowgate.guard import Fingerprint, Policy, Route
from knowgate.guard.contracts import ConflictBetween

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
