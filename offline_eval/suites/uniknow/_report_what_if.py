"""What other thresholds of the guard would have done with the cases of a run.

Both signals were measured for every case, and so were both replies: with the context by the
naive method, from memory by the estimator of confidence.
"""

from __future__ import annotations

from typing import Literal

from ....guard.policy import Policy
from ....guard.routing import Signals, decide_route
from ...report import WhatIf, WhatIfCase, counted
from ._cases import PAPER_KINDS
from ._matching import is_right
from ._reading import UniKnowRun
from ._rows import UniKnowRow, UniKnowSignal

_GUARD, _BASE = "guard_naive", "naive"
_MEANING = (
    "An answer is there if the context holds one or the closed-book answer is right. The reply at "
    "a threshold is that of the naive method, the closed-book answer, or an abstention."
)


def uniknow_what_if(run: UniKnowRun) -> WhatIf | str | None:
    """Let a reader try other thresholds on the guard over the naive method.

    Returns:
        None where that guard or the naive method took no part; a sentence where the stored
        signals do not give the stored decisions.
    """
    policy = run.policy
    replies = {row.case_key: row for row in run.rows if row.method == _BASE and not row.error}
    signals = {one.case_id: one for one in run.signals}
    decided = [
        row
        for row in run.rows
        if row.method == _GUARD
        and not row.error
        and row.context_kind in PAPER_KINDS
        and row.case_key in replies
        and row.case_key in signals
    ]
    if policy is None or not decided:
        return None
    cases = [_case(run, policy, signals[row.case_key], replies[row.case_key]) for row in decided]
    other = sum(_route(policy, case) != row.route for row, case in zip(decided, cases, strict=True))
    if other:
        return (
            f"The stored decisions on {counted(other, 'case')} do not follow from the stored "
            "signals and policy, so it is not known what another threshold would have done."
        )
    block = WhatIf(
        cases=tuple(cases),
        policy=policy,
        which=f"Cases of the four situations, of the method {_GUARD}",
        leave_one_out=False,
        replies=True,
        notes=(_MEANING,),
    )
    return block if block.sliders else None


def _case(run: UniKnowRun, policy: Policy, signal: UniKnowSignal, reply: UniKnowRow) -> WhatIfCase:
    relevance, confidence = signal.raw_relevance, signal.raw_confidence
    calibrated = policy.relevance_calibrator, policy.confidence_calibrator
    case = run.cases[signal.case_id]
    context: Literal["right", "wrong", "abstained"] = "right" if reply.right else "wrong"
    from_memory = is_right((signal.closed_book or "").strip(), case.case.expected)
    return WhatIfCase(
        name=signal.case_id,
        question=case.question,
        relevance=None if relevance is None else calibrated[0].apply(relevance),
        confidence=None if confidence is None else calibrated[1].apply(confidence),
        context_right=signal.holds_answer,
        memory_right=bool(signal.closed_book_right),
        context_reply="abstained" if reply.abstained else context,
        memory_reply="right" if from_memory else "wrong",
    )


def _route(policy: Policy, case: WhatIfCase) -> str:
    signals = Signals.replay(policy, case.relevance, case.confidence)
    return decide_route(policy, signals).route.value
