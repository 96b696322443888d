"""The online path: measure, route, count.

    question, passages ─► relevance ─┬─ ≥ τ_r ─► (conflict) ─► follow_context
                                     └─ < τ_r ─► confidence ─┬─ ≥ τ_p ─► answer (no context)
                                                             └─ else ─► abstain

Importing this package loads neither torch nor transformers nor LangChain; a
scorer loads what it needs when it is made.
"""

from __future__ import annotations

from ._aggregators import AGGREGATOR_NAMES, AGGREGATORS, aggregator
from ._arguments import DEFAULT_DEADLINES
from ._calibrators import (
    Calibrator,
    IdentityCalibrator,
    PlattCalibrator,
    StepCalibrator,
    TemperatureCalibrator,
)
from ._conflict_finding import ConflictBetween, ConflictExaminer, ConflictFinding, View
from ._contracts import (
    BatchConfidenceEstimator,
    Confidence,
    ConfidenceEstimator,
    ConflictDetector,
    Cost,
    Generation,
    HiddenStateLanguageModel,
    LanguageModel,
    RelevanceScorer,
    Requirement,
    ScoringLanguageModel,
    SetRelevanceScorer,
    SetScore,
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
    PartialGenerationsError,
    PolicyError,
    PolicyVersionError,
    PromptTooLongError,
    QuestionError,
    SignalError,
    SignalOverloadError,
    SignalTimeoutError,
    SignalValueError,
    UnsupportedLanguageError,
)
from ._fingerprint import Fingerprint
from ._guarantee import Guarantee, GuaranteedRisk, PolicyPoint
from ._guard import Guard
from ._matchers import AnswerMatcher, MeaningMatcher, TextEmbedder
from ._matching import canonical_answer, is_refusal, normalise_answer, same_answer
from ._metrics import GuardMetrics
from ._passages import clean_text, passage_text, passage_texts
from ._policy import SCHEMA_VERSION, Histogram, Policy
from ._premise_finding import (
    Answerability,
    AnswerabilityDetector,
    Premise,
    PremiseFault,
)
from ._routes import Mode, OnError, Reason, Route, Scenario, SignalName
from ._routing import Signals, Verdict, decide_route, next_signal

__all__ = [
    "AGGREGATORS",
    "AGGREGATOR_NAMES",
    "DEFAULT_DEADLINES",
    "SCHEMA_VERSION",
    "AnswerMatcher",
    "Answerability",
    "AnswerabilityDetector",
    "BatchConfidenceEstimator",
    "Calibrator",
    "Confidence",
    "ConfidenceEstimator",
    "ConflictBetween",
    "ConflictDetector",
    "ConflictExaminer",
    "ConflictFinding",
    "Cost",
    "Decision",
    "DeviceError",
    "Fingerprint",
    "FingerprintMismatchError",
    "Generation",
    "Guarantee",
    "GuaranteedRisk",
    "Guard",
    "GuardMetrics",
    "HiddenStateLanguageModel",
    "Histogram",
    "IdentityCalibrator",
    "InputError",
    "KnowgateError",
    "LanguageModel",
    "LanguageModelError",
    "LanguageModelTimeoutError",
    "MeaningMatcher",
    "MissingDependencyError",
    "Mode",
    "ModelFolderError",
    "OnError",
    "PartialGenerationsError",
    "PlattCalibrator",
    "Policy",
    "PolicyError",
    "PolicyPoint",
    "PolicyVersionError",
    "Premise",
    "PremiseFault",
    "PromptTooLongError",
    "QuestionError",
    "Reason",
    "RelevanceScorer",
    "Requirement",
    "Route",
    "Scenario",
    "ScoringLanguageModel",
    "SetRelevanceScorer",
    "SetScore",
    "SignalError",
    "SignalName",
    "SignalOverloadError",
    "SignalTimeoutError",
    "SignalValueError",
    "Signals",
    "StepCalibrator",
    "TemperatureCalibrator",
    "TextEmbedder",
    "UnsupportedLanguageError",
    "Verdict",
    "View",
    "aggregator",
    "canonical_answer",
    "clean_text",
    "decide_route",
    "is_refusal",
    "next_signal",
    "normalise_answer",
    "passage_text",
    "passage_texts",
    "same_answer",
]
