"""UAQFact: does the model know when a question has no answer?

    folder ─► read_layout ─► items and choices ─► tasks 1, 2, 3 ─► run ─► metrics ─► report

Source: "UAQFact: Evaluating Factual Knowledge Utilization of LLMs on Unanswerable Questions".
"""

from __future__ import annotations

from ._correctness import published_hit, strict_hit
from ._dilemma import dilemma_options
from ._guarding import LoadedGuards, load_guards
from ._items import (
    LANGUAGES,
    Answer,
    Answerability,
    ChoiceItem,
    Clue,
    QuestionType,
    Triple,
    UaqData,
    UaqItem,
)
from ._metrics import RefusalMetrics, ScoredReply, krr_value, passed_questions, refusal_metrics
from ._plan import TASK3_FORMS, UaqSettings, limited
from ._premise_guard import premise_guard
from ._prompting import NO_ANSWER, Prompts, clue_facts, embedded_prompts, triple_line
from ._reading import ALL_TASKS, read_layout
from ._refusal import RuleName, published_refusals, strict_refusals
from ._replay import ReplayedReplies
from ._rows import MODEL_SYSTEM, Form, UaqManifest, UaqRow
from ._run import UaqParts, run_uaqfact
from ._run_reading import UaqRun, read_uaqfact_run
from ._scoring import ALL, ChoiceLine, ScoreLine, score_choices, score_run, verdicts
from ._writing import write_layout

__all__ = [
    "ALL",
    "ALL_TASKS",
    "LANGUAGES",
    "MODEL_SYSTEM",
    "NO_ANSWER",
    "TASK3_FORMS",
    "Answer",
    "Answerability",
    "ChoiceItem",
    "ChoiceLine",
    "Clue",
    "Form",
    "LoadedGuards",
    "Prompts",
    "QuestionType",
    "RefusalMetrics",
    "ReplayedReplies",
    "RuleName",
    "ScoreLine",
    "ScoredReply",
    "Triple",
    "UaqData",
    "UaqItem",
    "UaqManifest",
    "UaqParts",
    "UaqRow",
    "UaqRun",
    "UaqSettings",
    "clue_facts",
    "dilemma_options",
    "embedded_prompts",
    "krr_value",
    "limited",
    "load_guards",
    "passed_questions",
    "premise_guard",
    "published_hit",
    "published_refusals",
    "read_layout",
    "read_uaqfact_run",
    "refusal_metrics",
    "run_uaqfact",
    "score_choices",
    "score_run",
    "strict_hit",
    "strict_refusals",
    "triple_line",
    "verdicts",
    "write_layout",
]
