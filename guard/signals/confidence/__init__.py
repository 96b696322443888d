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

import inspect
from collections.abc import Callable
from typing import Any

from ...contracts import ConfidenceEstimator, LanguageModel
from ...errors import InputError
from ...registry import Registry
from ._cascade import Cascade
from ._consistency import SampledConsistency
from ._driver import StepwiseEstimator
from ._entropy import SemanticEntropy
from ._single_answers import PTrue, TokenProbability, Verbalized
from .hidden_state import HiddenStateProbe
from .stopping import Sampling

__all__ = [
    "SampledConsistency",
    "Sampling",
    "StepwiseEstimator",
    "load_estimator",
]

_ESTIMATORS: Registry[Callable[..., ConfidenceEstimator]] = Registry(
    "an estimator",
    {
        "cascade": Cascade,
        "hidden_state_probe": HiddenStateProbe,
        "p_true": PTrue,
        "sampled_consistency": SampledConsistency,
        "semantic_entropy": SemanticEntropy,
        "token_probability": TokenProbability,
        "verbalized": Verbalized,
    },
    group="knowgate.estimators",
)
register_estimator = _ESTIMATORS.register


def load_estimator(
    name: str,
    language_model: LanguageModel,
    **settings: Any,
) -> ConfidenceEstimator:
    """The estimator called `name` over `language_model`.

    Users add estimators with `register_estimator(NAME, FACTORY)` or as its decorator, installed
    packages by the entry points `knowgate.estimators`; `python:module:attribute` names a factory,
    which takes the language model first and each setting as a named argument.

    Args:
        name: of an estimator.
        language_model: what it asks.
        settings: what its class takes by name, e.g. `statistic="mean"`.

    Raises:
        InputError: the name is unknown, or a setting is unknown, missing or out of range.

    Example:
        >>> from knowgate.guard.testing import ScriptedLanguageModel
        >>> load_estimator("token_probability", ScriptedLanguageModel()).fingerprint.kind
        'token_probability'
    """
    factory = _ESTIMATORS.find(name)
    taken = inspect.signature(factory)
    try:
        taken.bind(language_model, **settings)
    except TypeError as error:
        known = ", ".join([*taken.parameters][1:])
        hint = f"its settings: {known or 'none'}"
        raise InputError(f"{name}: {error}", where="settings", hint=hint) from None
    try:
        return factory(language_model, **settings)
    except ValueError as error:
        raise InputError(str(error), where=f"settings of {name}") from error
