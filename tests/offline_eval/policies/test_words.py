from __future__ import annotations

import math

import pytest

from knowgate.calibration.risk import RiskTarget
from knowgate.calibration.risk.risks import LEARN_CALIBRATORS
from knowgate.offline_eval.policies import calibrate_records
from tests.offline_eval.policies.measured import drawn


def test_the_number_of_further_questions_is_also_told_of_all_and_not_of_those_that_certify() -> (
    None
):
    found = calibrate_records(drawn(100), risk=0.02, delta=0.1, share=0.8)

    assert found.policy.guarantee is not None
    more = found.policy.guarantee.more_questions
    assert more is not None
    # Of 100 questions 80 are fitted on, and of those 60 % certify.
    [line] = [line for line in found.warnings if "further questions" in line]
    assert "those that certify, 48 of the 100 here: " in line
    assert (
        f"about {math.ceil(LEARN_CALIBRATORS.questions_for(48 + more) / 0.8 - 1e-9) - 100} more"
        in line
    )


@pytest.mark.parametrize("share", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("wanted", [10, 100, 150, 1000])
def test_of_the_questions_to_give_as_many_certify_as_wanted(wanted: int, share: float) -> None:
    fitted = round(share * math.ceil(LEARN_CALIBRATORS.questions_for(wanted) / share))

    assert fitted - round(fitted * LEARN_CALIBRATORS.of(fitted)) == pytest.approx(wanted, abs=2)


def test_each_route_on_its_own_is_promised_only_where_it_was_asked_for() -> None:
    pooled = calibrate_records(drawn(400), risk=0.3, delta=0.1)
    apart = calibrate_records(drawn(400), risk=RiskTarget.of_errors(0.3, per_route=True), delta=0.1)

    assert any("each route on its own" in line for line in pooled.not_promised)
    assert not any("each route on its own" in line for line in apart.not_promised)
