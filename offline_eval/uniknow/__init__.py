"""The UniKnow suite: what a model does with context and memory in each knowledge scenario.

    data set ─► knowledge (sampled closed-book answers) ─► contexts ─► cases
             ─► methods: prompted, contrastive, trained, and guards over them ─► rows

Source: "UniKnow: A Unified Framework for Reliable Language Model Behavior across
Parametric and External Knowledge".
"""

from __future__ import annotations

from ._artefacts import (
    PlanFile,
    SourceFile,
    StoredCase,
    StoredProblem,
    UniKnowManifest,
    UniKnowRow,
)
from ._beyond import BEYOND_KINDS, BeyondRates, beyond_rates
from ._cases import (
    IRRELEVANT_KINDS,
    PAPER_KINDS,
    RELEVANT_KINDS,
    Context,
    ContextKind,
    Knowledge,
    Reply,
    ScenarioCase,
    SuiteQuestion,
)
from ._context_sets import ContextProblem, ContextSet
from ._contexts import build_contexts
from ._contrastive_methods import ContrastiveLanguageModel, ContrastiveMethod
from ._datasets import Dataset, PromptSet
from ._error_types import Outcome
from ._guard_method import GuardMethod
from ._guard_policy import calibrate_guard
from ._knowledge import KnowledgeRule, estimate_knowledge
from ._knowledge_store import KnowledgeEstimate, KnowledgeStore
from ._methods import METHOD_NAMES, OPTIONAL_METHODS, Method, PromptedMethod
from ._metrics import MethodMetrics, ScenarioMetrics, Shares, uniknow_metrics
from ._readers import read_dataset
from ._reading import UniKnowRun, left_out_of, read_uniknow_run, uniknow_signals
from ._run import GUARD_SCORER, Parts, run_uniknow
from ._settings import UniKnowSettings
from ._signals import UniKnowSignal
from ._splits import Split, build_cases, split_questions
from ._trained_methods import Variant, ablation_variants
from ._training_data import preference_examples, prompt_for, training_examples

__all__ = [
    "BEYOND_KINDS",
    "GUARD_SCORER",
    "IRRELEVANT_KINDS",
    "METHOD_NAMES",
    "OPTIONAL_METHODS",
    "PAPER_KINDS",
    "RELEVANT_KINDS",
    "BeyondRates",
    "Context",
    "ContextKind",
    "ContextProblem",
    "ContextSet",
    "ContrastiveLanguageModel",
    "ContrastiveMethod",
    "Dataset",
    "GuardMethod",
    "Knowledge",
    "KnowledgeEstimate",
    "KnowledgeRule",
    "KnowledgeStore",
    "Method",
    "MethodMetrics",
    "Outcome",
    "Parts",
    "PlanFile",
    "PromptSet",
    "PromptedMethod",
    "Reply",
    "ScenarioCase",
    "ScenarioMetrics",
    "Shares",
    "SourceFile",
    "Split",
    "StoredCase",
    "StoredProblem",
    "SuiteQuestion",
    "UniKnowManifest",
    "UniKnowRow",
    "UniKnowRun",
    "UniKnowSettings",
    "UniKnowSignal",
    "Variant",
    "ablation_variants",
    "beyond_rates",
    "build_cases",
    "build_contexts",
    "calibrate_guard",
    "estimate_knowledge",
    "left_out_of",
    "preference_examples",
    "prompt_for",
    "read_dataset",
    "read_uniknow_run",
    "run_uniknow",
    "split_questions",
    "training_examples",
    "uniknow_metrics",
    "uniknow_signals",
]
