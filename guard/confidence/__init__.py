"""Parametric confidence: would the language model be right without any context?

    estimator            asks for                       calls of the language model
    token_probability    log-probabilities              1
    hidden_state_probe   weights, and a fitted probe    1, and a forward pass
    p_true               text, better option scores     1 and a forward pass, or 2 and more
    verbalized           text                           2
    cascade              log-probabilities              1 to 11, some 2 to 3 on average
    sampled_consistency  text                           1 to 11
    semantic_entropy     text, or log-probabilities     11

Add an estimator by matching the `ConfidenceEstimator` protocol, or by writing the
steps of a `StepwiseEstimator`, which gives it its sync, async and batch forms;
`register_estimator` gives it a name.
"""

from __future__ import annotations

from ._bayesian_stopping import BayesianStopping
from ._cascade import Cascade
from ._clusters import (
    AnswerClusters,
    EmbeddedAnswers,
    EntailedAnswers,
    Entailment,
    EqualAnswers,
    MatchedAnswers,
)
from ._driver import StepwiseEstimator
from ._entropy_of_meanings import semantic_entropy
from ._fitted_probe import PROBE_SCHEMA_VERSION, FittedProbe
from ._hidden_state_probe import HiddenStateProbe
from ._p_true import PTrue
from ._registry import estimator_names, load_estimator, register_estimator
from ._requests import Compute, Draw, HiddenState, Request, Score, Steps
from ._sampled_consistency import SampledConsistency
from ._semantic_entropy import SemanticEntropy
from ._spoken_confidence import spoken_confidence
from ._stopping import CurtailedSampling, FullSampling, StoppingRule
from ._token_probability import TokenProbability, token_probability
from ._verbalized import Verbalized

__all__ = [
    "PROBE_SCHEMA_VERSION",
    "AnswerClusters",
    "BayesianStopping",
    "Cascade",
    "Compute",
    "CurtailedSampling",
    "Draw",
    "EmbeddedAnswers",
    "EntailedAnswers",
    "Entailment",
    "EqualAnswers",
    "FittedProbe",
    "FullSampling",
    "HiddenState",
    "HiddenStateProbe",
    "MatchedAnswers",
    "PTrue",
    "Request",
    "SampledConsistency",
    "Score",
    "SemanticEntropy",
    "Steps",
    "StepwiseEstimator",
    "StoppingRule",
    "TokenProbability",
    "Verbalized",
    "estimator_names",
    "load_estimator",
    "register_estimator",
    "semantic_entropy",
    "spoken_confidence",
    "token_probability",
]
