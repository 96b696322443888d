"""UAQFact: does the model know when a question has no answer?

    folder ─► read_layout ─► items and choices ─► tasks 1, 2, 3 ─► run ─► metrics ─► report

Source: "UAQFact: Evaluating Factual Knowledge Utilization of LLMs on Unanswerable Questions".
"""

from __future__ import annotations

from ._answering import FactRetriever
from ._plan import TASK3_FORMS, Form, UaqSettings, limited
from ._prompting import (
    Prompts,
    clue_facts,
    embedded_prompts,
)
from ._replay import read_replies
from ._report import uaqfact_report
from ._run import UaqParts, run_uaqfact
from ._run_reading import read_uaqfact_run
from ._scoring import score_run

__all__ = [
    "TASK3_FORMS",
    "FactRetriever",
    "Form",
    "Prompts",
    "UaqParts",
    "UaqSettings",
    "clue_facts",
    "embedded_prompts",
    "limited",
    "read_replies",
    "read_uaqfact_run",
    "run_uaqfact",
    "score_run",
    "uaqfact_report",
]
