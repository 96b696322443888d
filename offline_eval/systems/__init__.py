"""Systems under test: models × prompts × retrievals × guards, asked or replayed.

    questions ─► cases ─► context (once per retrieval) ─► guard ─► model ─► a row of replies

A guard decides on the question and its passages before anything is asked: what it lets
through is answered from the passages it kept, or from memory; else its own reply stands.

Importing this package makes the scorer `judge:MODEL` known, a language model by name.
"""

from __future__ import annotations

from ._comparison import Comparison, SystemRun, Systems
from ._factory import (
    EMBEDDED,
    load_chat_model,
    load_judges,
    load_language_model,
    load_object,
    local_model,
)
from ._guards import GuardChoice
from ._logged_replies import LogEntry, LoggedReplies
from ._models import choose_reply
from ._plan import Asked, Case, Replayed, SystemUnderTest
from ._replying import Replier
from ._retrieval import PassageIndex
from ._served import ServedChain

__all__ = [
    "EMBEDDED",
    "Asked",
    "Case",
    "Comparison",
    "GuardChoice",
    "LogEntry",
    "LoggedReplies",
    "PassageIndex",
    "Replayed",
    "Replier",
    "ServedChain",
    "SystemRun",
    "SystemUnderTest",
    "Systems",
    "choose_reply",
    "load_chat_model",
    "load_judges",
    "load_language_model",
    "load_object",
    "local_model",
]
