"""Judge replies by rule or by language model, and compare judges with people.

    replies ─► judge_run ─► judgements.jsonl ─► validate_judges ─► corrected_rate
                  │                                  ▲
                  └─ detector · estimate · llm:MODEL · one's own     people's labels

Every verdict is a row: reply, criterion, judge, outcome, reasons, cost. Add a criterion for
language models as a file (`Criterion.read`), a judge as a function (`FunctionJudge`) or by
matching the `Judge` protocol.

    KnowgateError
    └── JudgeError                a judge gave no verdict: stored as a row, never raised
        ├── NoVerdictError        no message held a valid tag, reminders included
        └── EarlierVerdictError   it depends on a verdict that failed
"""

from __future__ import annotations

from ._chance_agreement import cohens_kappa
from ._contract import FunctionJudge, Judge, JudgedReply, Verdict
from ._correction import corrected_rate
from ._judges import DetectorJudge, EstimateJudge
from ._llm_judge import Criterion, LLMJudge, NoVerdictError
from ._multiple_choice import MultipleChoice
from ._run import judge_run, plan_judging
from ._validation import JudgeValidation
from ._yes_no import YesNo

__all__ = [
    "Criterion",
    "DetectorJudge",
    "EstimateJudge",
    "FunctionJudge",
    "Judge",
    "JudgeValidation",
    "JudgedReply",
    "LLMJudge",
    "MultipleChoice",
    "NoVerdictError",
    "Verdict",
    "YesNo",
    "cohens_kappa",
    "corrected_rate",
    "judge_run",
    "plan_judging",
]
