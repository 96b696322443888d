"""Conflicts of context and memory: what does a model do when a passage contradicts it?

    questions ─► beliefs ─► evidence (NC, HPC, HPCE, LPC), checked ─► instances, four options
                                                                          │
    report ◄─ scores ◄─ rows ◄─ tasks KF, CK, PK, PCK, RAG  ◄─────────────┘

Source: "What Is Seen Cannot Be Unseen: The Disruptive Effect of Knowledge Conflict on Large
Language Models".
"""

from __future__ import annotations

from ._answering import free_letters, likeliest, read_reply
from ._beliefs import BeliefCollector, believed
from ._evidence import Believed, EditorReplyError, EvidenceMaker
from ._instances import make_instances
from ._items import (
    CHOICE_TASKS,
    CONFLICTS,
    Candidate,
    ConflictItem,
    EvidenceKind,
    Task,
    UnusableQuestionError,
)
from ._judging import PassageJudge
from ._microworld_set import MICROWORLD, microworld_items
from ._naming import answering_sentences, answers_named, names_answer, sentences_of
from ._plan import ALL_KINDS, ALL_TASKS, ConflictSettings, Planned, planned, right_roles
from ._plausibility import disagree, judged_plausibility, likelihood_rank
from ._prompts import PromptSet
from ._reading import ConflictSet, conflict_files, read_conflict_set
from ._replay import ReplayedReplies
from ._rows import (
    CLOSED_BOOK,
    MODEL_SYSTEM,
    REMOVES,
    SYSTEMS,
    AnswerForm,
    BeliefRow,
    BeliefSource,
    Check,
    ConflictManifest,
    ConflictRow,
    EvidenceRow,
    Instance,
    Option,
    Role,
    Shown,
    Vote,
)
from ._run import ConflictParts, run_conflict
from ._run_reading import ConflictRun, read_conflict_run
from ._scoring import (
    AccuracyCell,
    PlausibilityBand,
    Preference,
    Suppression,
    accuracy_cells,
    confident_keys,
    evidence_differences,
    guard_routes,
    plausibility_bands,
    plausible_preference,
    preferences,
    suppressions,
)
from ._validation import Validator
from ._yes_no import parse_yes_no
from ._yes_no_likelihood import yes_no_likelihoods

__all__ = [
    "ALL_KINDS",
    "ALL_TASKS",
    "CHOICE_TASKS",
    "CLOSED_BOOK",
    "CONFLICTS",
    "MICROWORLD",
    "MODEL_SYSTEM",
    "REMOVES",
    "SYSTEMS",
    "AccuracyCell",
    "AnswerForm",
    "BeliefCollector",
    "BeliefRow",
    "BeliefSource",
    "Believed",
    "Candidate",
    "Check",
    "ConflictItem",
    "ConflictManifest",
    "ConflictParts",
    "ConflictRow",
    "ConflictRun",
    "ConflictSet",
    "ConflictSettings",
    "EditorReplyError",
    "EvidenceKind",
    "EvidenceMaker",
    "EvidenceRow",
    "Instance",
    "Option",
    "PassageJudge",
    "Planned",
    "PlausibilityBand",
    "Preference",
    "PromptSet",
    "ReplayedReplies",
    "Role",
    "Shown",
    "Suppression",
    "Task",
    "UnusableQuestionError",
    "Validator",
    "Vote",
    "accuracy_cells",
    "answering_sentences",
    "answers_named",
    "believed",
    "confident_keys",
    "conflict_files",
    "disagree",
    "evidence_differences",
    "free_letters",
    "guard_routes",
    "judged_plausibility",
    "likeliest",
    "likelihood_rank",
    "make_instances",
    "microworld_items",
    "names_answer",
    "parse_yes_no",
    "planned",
    "plausibility_bands",
    "plausible_preference",
    "preferences",
    "read_conflict_run",
    "read_conflict_set",
    "read_reply",
    "right_roles",
    "run_conflict",
    "sentences_of",
    "suppressions",
    "yes_no_likelihoods",
]
