"""The online path: measure signals, choose a route, count the decision.

    question, passages ─► relevance ─┬─ ≥ τ_r ─► (conflict) ─► follow_context
                                     └─ < τ_r ─► confidence ─┬─ ≥ τ_p ─► answer (no context)
                                                             └─ else ─► abstain

Importing this package loads neither torch nor transformers nor LangChain; a
scorer loads what it needs when it is made.
"""

from __future__ import annotations

from ._guard import Guard
from ._metrics import GuardMetrics
from ._options import GuardOptions
from ._signal import Request, Signal, Veto
from .contracts import (
    Confidence,
    ConfidenceEstimator,
    ConflictDetector,
    Generation,
    LanguageModel,
    RelevanceScorer,
)
from .decision import Decision, Mode, OnError, Reason, Route, Scenario
from .errors import (
    FingerprintMismatchError,
    InputError,
    KnowgateError,
    LanguageModelError,
    MissingDependencyError,
    PolicyError,
    QuestionError,
    SignalError,
    SignalTimeoutError,
)
from .policy import Fingerprint, Guarantee, Policy

__all__ = [
    "Confidence",
    "ConfidenceEstimator",
    "ConflictDetector",
    "Decision",
    "Fingerprint",
    "FingerprintMismatchError",
    "Generation",
    "Guarantee",
    "Guard",
    "GuardMetrics",
    "GuardOptions",
    "InputError",
    "KnowgateError",
    "LanguageModel",
    "LanguageModelError",
    "MissingDependencyError",
    "Mode",
    "OnError",
    "Policy",
    "PolicyError",
    "QuestionError",
    "Reason",
    "RelevanceScorer",
    "Request",
    "Route",
    "Scenario",
    "Signal",
    "SignalError",
    "SignalTimeoutError",
    "Veto",
]
