"""The online path: measure, route, count.

    question, passages ─► relevance ─┬─ ≥ τ_r ─► (conflict) ─► follow_context
                                     └─ < τ_r ─► confidence ─┬─ ≥ τ_p ─► answer (no context)
                                                             └─ else ─► abstain

Importing this package loads neither torch nor transformers nor LangChain; a
scorer loads what it needs when it is made.
"""

from __future__ import annotations

from ._aggregators import AGGREGATORS, aggregator
from ._arguments import DEFAULT_DEADLINES
from ._calibrators import (
    Calibrator,
    IdentityCalibrator,
    PlattCalibrator,
    StepCalibrator,
    TemperatureCalibrator,
)
from ._contracts import (
    Confidence,
    ConfidenceEstimator,
    ConflictDetector,
    Generation,
    LanguageModel,
    RelevanceScorer,
)
from ._decision import Decision
from ._errors import (
    DeviceError,
    FingerprintMismatchError,
    InputError,
    KnowgateError,
    LanguageModelError,
    LanguageModelTimeoutError,
    MissingDependencyError,
    ModelFolderError,
    PolicyError,
    PolicyVersionError,
    PromptTooLongError,
    QuestionError,
    SignalError,
    SignalOverloadError,
    SignalTimeoutError,
    SignalValueError,
)
from ._fingerprint import Fingerprint
from ._guard import Guard
from ._matching import is_refusal, normalise_answer, same_answer
from ._metrics import GuardMetrics
from ._passages import clean_text, passage_text, passage_texts
from ._policy import SCHEMA_VERSION, Guarantee, Histogram, Policy
from ._routes import Mode, OnError, Reason, Route, Scenario, SignalName
from ._routing import Signals, Verdict, decide_route, next_signal

__all__ = [
    "AGGREGATORS",
    "DEFAULT_DEADLINES",
    "SCHEMA_VERSION",
    "Calibrator",
    "Confidence",
    "ConfidenceEstimator",
    "ConflictDetector",
    "Decision",
    "DeviceError",
    "Fingerprint",
    "FingerprintMismatchError",
    "Generation",
    "Guarantee",
    "Guard",
    "GuardMetrics",
    "Histogram",
    "IdentityCalibrator",
    "InputError",
    "KnowgateError",
    "LanguageModel",
    "LanguageModelError",
    "LanguageModelTimeoutError",
    "MissingDependencyError",
    "Mode",
    "ModelFolderError",
    "OnError",
    "PlattCalibrator",
    "Policy",
    "PolicyError",
    "PolicyVersionError",
    "PromptTooLongError",
    "QuestionError",
    "Reason",
    "RelevanceScorer",
    "Route",
    "Scenario",
    "SignalError",
    "SignalName",
    "SignalOverloadError",
    "SignalTimeoutError",
    "SignalValueError",
    "Signals",
    "StepCalibrator",
    "TemperatureCalibrator",
    "Verdict",
    "aggregator",
    "clean_text",
    "decide_route",
    "is_refusal",
    "next_signal",
    "normalise_answer",
    "passage_text",
    "passage_texts",
    "same_answer",
]
