"""What other thresholds would have done with calibration records."""

from __future__ import annotations

from collections.abc import Sequence

from ...guard.policy import Policy
from ..report import WhatIf, WhatIfCase
from ._rates import Outcome


def what_if_of(policy: Policy, outcomes: Sequence[Outcome], which: str) -> WhatIf:
    """Let a reader try other thresholds on these cases.

    Args:
        policy: whose thresholds are the point to compare with.
        outcomes: of the cases under it.
        which: cases these are, in words.
    """
    return WhatIf(tuple(map(_case, outcomes)), policy, which, leave_one_out=False)


def _case(outcome: Outcome) -> WhatIfCase:
    case = outcome.case
    return WhatIfCase(
        name=" · ".join(part for part in (case.question_id, case.case) if part),
        question="",
        relevance=outcome.relevance,
        confidence=outcome.confidence,
        context_right=bool(case.context_right),
        memory_right=bool(case.closed_book_right),
        conflict=case.conflict,
        nothing_retrieved=case.nothing_retrieved,
        weight=case.weight,
    )
