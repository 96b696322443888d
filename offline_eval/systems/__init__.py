"""Systems under test: models × prompts × retrievals × guards, asked or replayed.

    questions ─► cases ─► context (once per retrieval) ─► guard ─► model ─► a row of replies

A guard decides on the question and its passages before anything is asked: what it lets
through is answered from the passages it kept, or from memory; else its own reply stands.
"""

from __future__ import annotations

from ._bases import AskedBase, read_bases
from ._cases import Case, build_cases
from ._contexts import FoundContext, Material, Wanted, find_contexts
from ._factory import EMBEDDED, load_chat_model, load_language_model, load_object
from ._guards import (
    OFF,
    GuardChoice,
    choose_reply,
    held_out_of,
    load_guard_choices,
    load_guards,
    premise_guard,
)
from ._judges import DEFAULT_JUDGES, load_judges
from ._left_out import AnswerElsewhere, left_out_check
from ._logged_replies import LogEntry, LoggedReplies, logged_generation
from ._models import ModelUnderTest
from ._plan import Asked, LiveSystem, all_asked, cases_of, live_systems, reply_case
from ._prompts import load_system_prompts
from ._replayed import Replay, Replayed, given_judgements, read_replay
from ._replying import Replier, failed_row, make_replier
from ._retrieval import PassageIndex, Retriever, top_k_in_blocks
from ._retrievers import RETRIEVALS, load_retriever
from ._settings import CASES, RepliesSettings
from ._synthetic import synthetic_questions

__all__ = [
    "CASES",
    "DEFAULT_JUDGES",
    "EMBEDDED",
    "OFF",
    "RETRIEVALS",
    "AnswerElsewhere",
    "Asked",
    "AskedBase",
    "Case",
    "FoundContext",
    "GuardChoice",
    "LiveSystem",
    "LogEntry",
    "LoggedReplies",
    "Material",
    "ModelUnderTest",
    "PassageIndex",
    "Replay",
    "Replayed",
    "Replier",
    "RepliesSettings",
    "Retriever",
    "Wanted",
    "all_asked",
    "build_cases",
    "cases_of",
    "choose_reply",
    "failed_row",
    "find_contexts",
    "given_judgements",
    "held_out_of",
    "left_out_check",
    "live_systems",
    "load_chat_model",
    "load_guard_choices",
    "load_guards",
    "load_judges",
    "load_language_model",
    "load_object",
    "load_retriever",
    "load_system_prompts",
    "logged_generation",
    "make_replier",
    "premise_guard",
    "read_bases",
    "read_replay",
    "reply_case",
    "synthetic_questions",
    "top_k_in_blocks",
]
