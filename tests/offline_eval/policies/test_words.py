from __future__ import annotations

import math

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
