"""Judges: what replies are worth, by rule, by language model, and against people.

    replies ─► judge_run ─► judgements.jsonl ─► validate_judges ─► corrected_rate
                  │                                  ▲
                  └─ detector · estimate · llm:MODEL · one's own     people's labels

Every verdict is a row: reply, criterion, judge, outcome, reasons, cost. Add a criterion for
language models as a file (`read_criterion`), a judge as a function (`FunctionJudge`) or by
matching the `Judge` protocol.

    KnowgateError
    └── JudgeError                a judge gave no verdict: stored as a row, never raised
        ├── NoVerdictError        no message held a valid tag, reminders included
        └── EarlierVerdictError   it depends on a verdict that failed
"""

from __future__ import annotations

from ._contract import Judge, JudgedReply, Verdict
from ._criterion import FAILURE, NOT_APPLICABLE, NoVerdictError, parse_tag, read_criterion
from ._judges import ACCEPTABLE, EQUIVALENT, AnswerSimilarity, DetectorJudge, numbers_clash
from ._multiple_choice import LETTERS, parse_choices
from ._names import DEFAULT_JUDGES, load_judges
from ._run import JudgePlan, JudgeTotals, judge_run, plan_judging
from ._validation import JudgeValidation, corrected_rate, judges_of, validate_judges
from ._yes_no import parse_yes_no, yes_no_likelihoods

__all__ = [
    "ACCEPTABLE",
    "DEFAULT_JUDGES",
    "EQUIVALENT",
    "FAILURE",
    "LETTERS",
    "NOT_APPLICABLE",
    "AnswerSimilarity",
    "DetectorJudge",
    "Judge",
    "JudgePlan",
    "JudgeTotals",
    "JudgeValidation",
    "JudgedReply",
    "NoVerdictError",
    "Verdict",
    "corrected_rate",
    "judge_run",
    "judges_of",
    "load_judges",
    "numbers_clash",
    "parse_choices",
    "parse_tag",
    "parse_yes_no",
    "plan_judging",
    "read_criterion",
    "validate_judges",
    "yes_no_likelihoods",
]
