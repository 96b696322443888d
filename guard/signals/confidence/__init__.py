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

from ._consistency import SampledConsistency
from ._driver import StepwiseEstimator
from ._registry import load_estimator
from .stopping import Sampling

__all__ = [
    "SampledConsistency",
    "Sampling",
    "StepwiseEstimator",
    "load_estimator",
]
