"""Confidence estimators by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...contracts import ConfidenceEstimator, LanguageModel
from ...errors import InputError
from ._cascade import Cascade
from ._consistency import SampledConsistency
from ._entropy import SemanticEntropy
from ._hidden_state import HiddenStateProbe
from ._self_reported import PTrue, Verbalized
from ._token_probability import TokenProbability

_ESTIMATORS: dict[str, Callable[..., ConfidenceEstimator]] = {
    "cascade": Cascade,
    "hidden_state_probe": HiddenStateProbe,
    "p_true": PTrue,
    "sampled_consistency": SampledConsistency,
    "semantic_entropy": SemanticEntropy,
    "token_probability": TokenProbability,
    "verbalized": Verbalized,
}


def estimator_names() -> tuple[str, ...]:
    """Names that `load_estimator` knows, sorted."""
    return tuple(sorted(_ESTIMATORS))


def register_estimator(name: str, factory: Callable[..., ConfidenceEstimator]) -> None:
    """Make `load_estimator(name, model, …)` call `factory(model, …)`.

    Args:
        name: a new one.
        factory: takes the language model first and each setting as a named argument.

    Raises:
        InputError: the name is taken.
    """
    if name in _ESTIMATORS:
        raise InputError(f"an estimator named {name!r} exists already", hint="choose another name")
    _ESTIMATORS[name] = factory


def load_estimator(
    name: str, language_model: LanguageModel, **settings: Any
) -> ConfidenceEstimator:
    """The estimator called `name` over `language_model`.

    Args:
        name: one of `estimator_names()`.
        language_model: what it asks.
        settings: what its class takes by name, e.g. `statistic="mean"`.

    Raises:
        InputError: the name is unknown, or a setting is unknown, missing or out of range.

    Example:
        >>> from knowgate.guard.testing import ScriptedLanguageModel
        >>> load_estimator("token_probability", ScriptedLanguageModel()).fingerprint.kind
        'token_probability'
    """
    if name not in _ESTIMATORS:
        raise InputError(
            f"unknown estimator {name!r}", hint=f"one of: {', '.join(estimator_names())}"
        )
    factory = _ESTIMATORS[name]
    _, *parameters = inspect.signature(factory).parameters.values()
    known = [parameter.name for parameter in parameters]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        unknown = sorted(set(settings) - set(known))
        if unknown:
            raise InputError(
                f"{name} has no setting {', '.join(map(repr, unknown))}",
                where="settings",
                hint=f"one of: {', '.join(known) or 'none'}",
            )
    missing = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind is parameter.KEYWORD_ONLY
        and parameter.name not in settings
    ]
    if missing:
        raise InputError(f"{name} needs {', '.join(missing)}", where="settings")
    try:
        return factory(language_model, **settings)
    except ValueError as error:
        raise InputError(str(error), where=f"settings of {name}") from error
