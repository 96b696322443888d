"""The UniKnow suite: what a model does with context and memory in each knowledge scenario.

    data set ─► knowledge (sampled closed-book answers) ─► contexts ─► cases
             ─► methods: prompted, contrastive, trained, and guards over them ─► rows

Source: "UniKnow: A Unified Framework for Reliable Language Model Behavior across
Parametric and External Knowledge".
"""

from __future__ import annotations

from ._artefacts import UniKnowSettings
from ._cases import ContextKind, Knowledge, ScenarioCase
from ._contexts import build_contexts
from ._datasets import Dataset
from ._guard_method import UniKnowSignal
from ._knowledge import KnowledgeStore, estimate_knowledge
from ._questions import read_dataset
from ._reading import left_out_of, uniknow_signals
from ._report_view import uniknow_report
from ._run import GUARD_SCORER, Parts, run_uniknow
from ._splits import build_cases, split_questions
from ._training_data import (
    check_abstention_share,
    check_without_kinds,
    preference_examples,
    training_examples,
)

__all__ = [
    "GUARD_SCORER",
    "ContextKind",
    "Dataset",
    "Knowledge",
    "KnowledgeStore",
    "Parts",
    "ScenarioCase",
    "UniKnowSettings",
    "UniKnowSignal",
    "build_cases",
    "build_contexts",
    "check_abstention_share",
    "check_without_kinds",
    "estimate_knowledge",
    "left_out_of",
    "preference_examples",
    "read_dataset",
    "run_uniknow",
    "split_questions",
    "training_examples",
    "uniknow_report",
    "uniknow_signals",
]
