"""Replies of systems under test: what a run folder holds, and reading it.

    manifest.json     what was asked of whom: systems, knowledge bases, inputs, seeds
    questions.jsonl   questions with answers
    passages.jsonl    passages by id; contexts name them and never copy them
    cases.jsonl       question × state of the knowledge base
    replies.jsonl     one row per case and system, in the order in which they finished
    judgements.jsonl  what judges made of the replies, one row per reply, judge, criterion

Whoever adds to a folder appends: nothing that was paid for is written over.
"""

from __future__ import annotations

from ._artefacts import (
    ABSTENTION,
    FACTUALITY,
    GIVEN_JUDGE,
    HOLDS_REPLIES,
    TIERS,
    Judgement,
    RepliesManifest,
    ReplyCase,
    ReplyContext,
    ReplyRow,
    ReplySystem,
    StoredKnowledgeBase,
    StoredPassage,
)
from ._reading import RepliesRun, holds_replies, read_replies_run
from ._writing import start_replies_run

__all__ = [
    "ABSTENTION",
    "FACTUALITY",
    "GIVEN_JUDGE",
    "HOLDS_REPLIES",
    "TIERS",
    "Judgement",
    "RepliesManifest",
    "RepliesRun",
    "ReplyCase",
    "ReplyContext",
    "ReplyRow",
    "ReplySystem",
    "StoredKnowledgeBase",
    "StoredPassage",
    "holds_replies",
    "read_replies_run",
    "start_replies_run",
]
