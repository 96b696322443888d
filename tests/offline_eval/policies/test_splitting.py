from __future__ import annotations

from knowgate.calibration import CalibrationRecord
from knowgate.offline_eval.policies import calibrate_records
from knowgate.offline_eval.policies.records import CalibrationSet


def test_no_document_is_in_two_parts_of_a_calibration() -> None:
    cases = tuple(
        CalibrationRecord(str(i), i % 7, None, i % 3 > 0, None, f"d{i % 50}") for i in range(500)
    )

    found = calibrate_records(CalibrationSet(cases, "drawn"), risk=0.5, delta=0.1, share=0.8)

    groups = [{case.group for case in part} for part in (found.learn, found.certify, found.test)]
    assert sum(map(len, groups)) == len(set().union(*groups)) == 50
