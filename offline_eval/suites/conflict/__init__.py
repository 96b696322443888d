"""Conflicts of context and memory: what does a model do when a passage contradicts it?

    questions ─► beliefs ─► evidence (NC, HPC, HPCE, LPC), checked ─► instances, four options
                                                                          │
    report ◄─ scores ◄─ rows ◄─ tasks KF, CK, PK, PCK, RAG  ◄─────────────┘

Source: "What Is Seen Cannot Be Unseen: The Disruptive Effect of Knowledge Conflict on Large
Language Models".
"""

from __future__ import annotations

from ._beliefs import BeliefCollector
from ._evidence import Believed
from ._items import (
    MICROWORLD,
    ConflictItem,
    EvidenceKind,
    Task,
    conflict_files,
    microworld_items,
    read_conflict_set,
)
from ._plan import ALL_KINDS, ALL_TASKS, ConflictSettings
from ._prompts import PromptSet
from ._replay import read_replies
from ._report import conflict_report
from ._rows import AnswerForm, BeliefSource
from ._run import ConflictParts, run_conflict
from ._run_reading import read_conflict_run
from ._validation import PassageJudge

__all__ = [
    "ALL_KINDS",
    "ALL_TASKS",
    "MICROWORLD",
    "AnswerForm",
    "BeliefCollector",
    "BeliefSource",
    "Believed",
    "ConflictItem",
    "ConflictParts",
    "ConflictSettings",
    "EvidenceKind",
    "PassageJudge",
    "PromptSet",
    "Task",
    "conflict_files",
    "conflict_report",
    "microworld_items",
    "read_conflict_run",
    "read_conflict_set",
    "read_replies",
    "run_conflict",
]
