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

from ._answer_similarity import AnswerSimilarity
from ._by_name import DEFAULT_JUDGES, load_judges
from ._contract import FunctionJudge, Judge, Verdict
from ._corrected import corrected_rate
from ._criterion import (
    FAILURE,
    NOT_APPLICABLE,
    Criterion,
    bundled_criteria,
    read_criterion,
)
from ._detector_judge import DetectorJudge
from ._errors import EarlierVerdictError, JudgeError, NoVerdictError
from ._estimate import ESTIMATE, EstimateJudge
from ._labels import HumanLabels, LabelsLike, labels_of_judge
from ._llm_judge import LLMJudge
from ._material import JudgedReply, judged_reply
from ._primary import judges_of, primary_judge
from ._run import JudgePlan, JudgeTotals, judge_run, plan_judging
from ._tags import TaggedVerdict, parse_tag
from ._validation import JudgeValidation, validate_judges

__all__ = [
    "DEFAULT_JUDGES",
    "ESTIMATE",
    "FAILURE",
    "NOT_APPLICABLE",
    "AnswerSimilarity",
    "Criterion",
    "DetectorJudge",
    "EarlierVerdictError",
    "EstimateJudge",
    "FunctionJudge",
    "HumanLabels",
    "Judge",
    "JudgeError",
    "JudgePlan",
    "JudgeTotals",
    "JudgeValidation",
    "JudgedReply",
    "LLMJudge",
    "LabelsLike",
    "NoVerdictError",
    "TaggedVerdict",
    "Verdict",
    "bundled_criteria",
    "corrected_rate",
    "judge_run",
    "judged_reply",
    "judges_of",
    "labels_of_judge",
    "load_judges",
    "parse_tag",
    "plan_judging",
    "primary_judge",
    "read_criterion",
    "validate_judges",
]
