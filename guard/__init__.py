"""The online path: measure signals, choose a route, count the decision.

    question, passages ─► relevance ─┬─ ≥ τ_r ─► (conflict) ─► follow_context
                                     └─ < τ_r ─► confidence ─┬─ ≥ τ_p ─► answer (no context)
                                                             └─ else ─► abstain

Importing this package loads neither torch nor transformers nor LangChain; a
scorer loads what it needs when it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .registry import names_on_use

if TYPE_CHECKING:
    from ._guard import Guard
    from ._metrics import GuardMetrics
    from ._observers import DecisionLog
    from ._options import GuardOptions
    from ._signal import Signal, Veto
    from .artefacts import Guarantee
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
    from .fingerprint import Fingerprint
    from .policy import Policy
    from .text import InputLimits, Request

__all__ = [
    "Confidence",
    "ConfidenceEstimator",
    "ConflictDetector",
    "Decision",
    "DecisionLog",
    "Fingerprint",
    "FingerprintMismatchError",
    "Generation",
    "Guarantee",
    "Guard",
    "GuardMetrics",
    "GuardOptions",
    "InputError",
    "InputLimits",
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

# Imported on first use: the command line and the adapters need a part of them only.
__getattr__, __dir__ = names_on_use(
    __name__,
    {
        "_guard": "Guard",
        "_metrics": "GuardMetrics",
        "_observers": "DecisionLog",
        "_options": "GuardOptions",
        "_signal": "Signal Veto",
        "contracts": "Confidence ConfidenceEstimator ConflictDetector Generation LanguageModel "
        "RelevanceScorer",
        "decision": "Decision Mode OnError Reason Route Scenario",
        "errors": "FingerprintMismatchError InputError KnowgateError LanguageModelError "
        "MissingDependencyError PolicyError QuestionError SignalError SignalTimeoutError",
        "policy": "Fingerprint Guarantee Policy",
        "text": "InputLimits Request",
    },
)
