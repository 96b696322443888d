"""Identify a model and its settings, and bypass its response cache."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase


def uncached(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """`model` as it is where no cache is in use, else a copy that asks none.

    Looks through bindings and sequences; the caller's model is never changed.
    """
    if isinstance(model, BaseLanguageModel):
        in_use = model.cache is not False and not (model.cache is None and get_llm_cache() is None)
        return model.model_copy(update={"cache": False}) if in_use else model
    if isinstance(model, RunnableBindingBase):
        bound = uncached(model.bound)
        return model if bound is model.bound else model.model_copy(update={"bound": bound})
    if isinstance(model, RunnableSequence):
        steps = [uncached(step) for step in model.steps]
        if all(new is old for new, old in zip(steps, model.steps, strict=True)):
            return model
        return RunnableSequence(*steps, name=model.name)
    return model


# Names under which models keep what they are and how they decode.
_TELLING = (
    "model", "model_name", "model_id", "deployment_name", "temperature", "top_p", "top_k",
    "max_tokens", "max_output_tokens", "seed", "stop",
)  # fmt: skip
# Where a value is a secret, or changes although the model stays the same.
_UNTOLD = re.compile(
    r"key|secret|token(?!s|iz)|password|credential|auth|header|cookie|url|uri|endpoint|proxy"
    r"|base|client|callback|cache|user|organi[sz]ation|project|metadata|tags",
    re.IGNORECASE,
)


def model_fingerprint(model: Runnable[Any, Any], settings: Mapping[str, Any]) -> str:
    """Class name and hash of a model and the settings it is called with.

    Keys that may hold secrets or addresses take no part, so that a new key does not
    make another model of it.
    """
    described = {"model": _described(model), "settings": _plain(settings)}
    text = json.dumps(described, sort_keys=True, ensure_ascii=True)
    return f"{class_name(model)}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def class_name(model: Runnable[Any, Any]) -> str:
    """Name of the model's class, looked up through its bindings."""
    while isinstance(model, RunnableBindingBase):
        model = model.bound
    return type(model).__name__


def _described(model: Runnable[Any, Any]) -> Any:
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    if isinstance(model, RunnableBindingBase):
        return [kind, _plain(model.kwargs), _described(model.bound)]
    if isinstance(model, RunnableSequence):
        return [kind, *(_described(step) for step in model.steps)]
    found = {name: getattr(model, name) for name in _TELLING if hasattr(model, name)}
    if isinstance(model, BaseLanguageModel):
        found.update(model._identifying_params)
    else:
        found["name"] = model.get_name()
    return [kind, _plain(found)]


def _plain(value: Any) -> Any:
    """The part of `value` that JSON can hold and that may enter a fingerprint."""
    if isinstance(value, Mapping):
        told = {str(key): _plain(held) for key, held in value.items() if not _secret(key)}
        return {key: held for key, held in told.items() if held is not None}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if isinstance(value, str | int | float | bool):
        return value
    return None


def _secret(key: object) -> bool:
    return _UNTOLD.search(str(key)) is not None
