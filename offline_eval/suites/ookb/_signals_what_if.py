"""What other thresholds would have done with the cases of a run of relevance signals."""

from __future__ import annotations

from collections.abc import Sequence

from ....guard.policy import Policy
from ...report import WhatIf, WhatIfCase
from ...run import CaseKind, MeasuredRun
from ._replies_what_if import CASCADE_WITHOUT_WHAT_IF
from ._signals_prose import counted_questions
from ._signals_summary import Case, measured_cases, relevance_gate

_ONE_THRESHOLD = (
    "Here one threshold judges every question, while the results above judge each question by a "
    "threshold that does not rest on it; so the two may differ a little."
)


def signals_what_if(run: MeasuredRun, cases: Sequence[Case]) -> WhatIf | str | None:
    """Collect the cases that the rates are about, without a policy all; None without any.

    Of a cascade of scorers it returns why there is nothing to try.
    """
    if run.manifest.settings.scorer.stages:
        return CASCADE_WITHOUT_WHAT_IF
    calibrated = run.calibration is not None
    cases = _promised(run, cases)
    shown = [case for case in cases if case.counted or not calibrated]
    if not any(case.found or case.missing for case in shown):
        return None
    return WhatIf(
        cases=tuple(_case(case) for case in shown),
        policy=_gate(run),
        # Where nothing was held out these are all of them.
        which=counted_questions(run)
        if run.calibration is None or run.calibration.test_questions
        else "All measured questions",
        leave_one_out=True,
        scale="relevance" if calibrated else "raw relevance score",
        notes=(_ONE_THRESHOLD,) if calibrated else (),
    )


def _promised(run: MeasuredRun, cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases that the promise is about; of what is missing the left-out ones without."""
    guarantee = None if run.calibration is None else run.calibration.policy.guarantee
    if guarantee is None or guarantee.missing in (None, "left_out"):
        return cases
    own = measured_cases(run, (CaseKind.UNANSWERABLE,))
    kept = cases if guarantee.missing == "both" else [one for one in cases if not one.left_out]
    return (*kept, *own)


def _gate(run: MeasuredRun) -> Policy:
    if run.calibration is not None:
        return relevance_gate(run.calibration.policy)
    settings = run.manifest.settings
    return Policy(scorer=settings.scorer, aggregator=settings.aggregator, relevance_threshold=None)


def _case(case: Case) -> WhatIfCase:
    row = case.row
    raw = row.raw_relevance if row.retrieved else None
    return WhatIfCase(
        name=row.case_id,
        question=case.question.question,
        relevance=raw if case.relevance is None else case.relevance,
        confidence=None,
        context_right=case.found or case.elsewhere,
        nothing_retrieved=raw is None,
        # Neither a leak nor, chosen by relevance as it is, a fair sample of what can be answered.
        missed=case.missed or case.elsewhere,
    )
