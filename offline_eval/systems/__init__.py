"""Systems under test: models × prompts × retrievals × guards, asked or replayed.

    questions ─► cases ─► context (once per retrieval) ─► guard ─► model ─► a row of replies

A guard decides on the question and its passages before anything is asked: what it lets
through is answered from the passages it kept, or from memory; else its own reply stands.
"""

from __future__ import annotations

from ._comparison import Comparison, Systems
from ._deciding import choose_reply
from ._factory import EMBEDDED, load_chat_model, load_language_model, load_object
from ._guards import load_guard_choices, load_guards
from ._judges import DEFAULT_JUDGES, load_judges
from ._logged_replies import LogEntry, LoggedReplies
from ._plan import Asked, Case, Replayed, SystemUnderTest
from ._replying import Replier
from ._retrieval import PassageIndex
from ._served import ServedChain
from ._synthetic import SyntheticSettings, synthetic_questions
from ._system_run import ContextSettings, SystemRun

__all__ = [
    "DEFAULT_JUDGES",
    "EMBEDDED",
    "Asked",
    "Case",
    "Comparison",
    "ContextSettings",
    "LogEntry",
    "LoggedReplies",
    "PassageIndex",
    "Replayed",
    "Replier",
    "ServedChain",
    "SyntheticSettings",
    "SystemRun",
    "SystemUnderTest",
    "Systems",
    "choose_reply",
    "load_chat_model",
    "load_guard_choices",
    "load_guards",
    "load_judges",
    "load_language_model",
    "load_object",
    "synthetic_questions",
]
