"""Confidence estimators by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...contracts import ConfidenceEstimator, LanguageModel
from ...errors import InputError
from ...registry import Registry
from ._cascade import Cascade
from ._consistency import SampledConsistency
from ._entropy import SemanticEntropy
from ._single_answers import PTrue, TokenProbability, Verbalized
from .hidden_state import HiddenStateProbe

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
    name: str, language_model: LanguageModel, **settings: Any
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
