"""Judge replies by rule or by language model, and compare judges with people.

    replies ─► judge_run ─► judgements.jsonl ─► validate_judges ─► corrected_rate
                  │                                  ▲
                  └─ detector · estimate · llm:MODEL · one's own     people's labels

Every verdict is a row: reply, criterion, judge, outcome, reasons, cost. Add a criterion for
language models as a file (`Criterion.read`), a judge by matching the `Judge` protocol.

    KnowgateError
    └── NoVerdictError            a judge gave no verdict: stored as a row, never raised
"""

from __future__ import annotations
