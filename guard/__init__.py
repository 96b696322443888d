"""The online path: measure signals, choose a route, count the decision.

    question, passages ─► relevance ─┬─ ≥ τ_r ─► (conflict) ─► follow_context
                                     └─ < τ_r ─► confidence ─┬─ ≥ τ_p ─► answer (no context)
                                                             └─ else ─► abstain

Importing this package loads neither torch nor transformers nor LangChain; a
scorer loads what it needs when it is made.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._decision_log import DecisionLog
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
    from .text import InputLimits

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
_MODULES = {
    **dict.fromkeys(("DecisionLog",), "_decision_log"),
    **dict.fromkeys(("Guard",), "_guard"),
    **dict.fromkeys(("GuardMetrics",), "_metrics"),
    **dict.fromkeys(("GuardOptions",), "_options"),
    **dict.fromkeys(("Request", "Signal", "Veto"), "_signal"),
    **dict.fromkeys(
        (
            "Confidence",
            "ConfidenceEstimator",
            "ConflictDetector",
            "Generation",
            "LanguageModel",
            "RelevanceScorer",
        ),
        "contracts",
    ),
    **dict.fromkeys(("Decision", "Mode", "OnError", "Reason", "Route", "Scenario"), "decision"),
    **dict.fromkeys(
        (
            "FingerprintMismatchError",
            "InputError",
            "KnowgateError",
            "LanguageModelError",
            "MissingDependencyError",
            "PolicyError",
            "QuestionError",
            "SignalError",
            "SignalTimeoutError",
        ),
        "errors",
    ),
    **dict.fromkeys(("InputLimits",), "text"),
    **dict.fromkeys(("Fingerprint", "Guarantee", "Policy"), "policy"),
}


def __getattr__(name: str) -> Any:
    """Import the module that holds `name` (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
