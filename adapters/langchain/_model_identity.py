"""Identify a chat model by what can change its answers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.language_models import BaseLanguageModel
from langchain_core.runnables import Runnable, RunnableSequence, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

# Names under which models keep what they are and how they decode.
_TELLING = (
    "model", "model_name", "model_id", "deployment_name", "temperature", "top_p", "top_k",
    "max_tokens", "max_output_tokens", "seed", "stop",
)  # fmt: skip
# Secrets, addresses, and what changes how a reply is sent but never what it says.
_UNTOLD = re.compile(
    r"key|secret|token(?!s|iz)|password|credential|auth|header|cookie|url|uri|endpoint|proxy"
    r"|base|client|callback|cache|user|organi[sz]ation|project|metadata|tags"
    r"|stream|timeout|retr(?:y|ies)|rate_limit|concurrency|verbose|logprobs|^n$",
    re.IGNORECASE,
)
# Names of a model, which a folder's path may be.
_NAMES = ("model", "model_name", "model_id")


def model_fingerprint(model: Runnable[Any, Any], settings: Mapping[str, Any]) -> str:
    """Class name and hash of a model and the settings it is called with.

    Only what can change answers takes part: neither secrets nor addresses, timeouts,
    callbacks or streaming. A model that has a `fingerprint` itself, as local models have
    of their weights, is identified by that and not by its name, which may be a path.
    """
    described = {"model": _described(model), "settings": _plain(settings)}
    text = json.dumps(described, sort_keys=True, ensure_ascii=True)
    return f"{class_name(model)}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


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
    own = getattr(model, "fingerprint", None)
    if isinstance(own, str):
        found = {name: value for name, value in found.items() if name not in _NAMES}
        found["weights"] = own
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


def class_name(model: Runnable[Any, Any]) -> str:
    """Name of the model's class, looked up through its bindings."""
    while isinstance(model, RunnableBindingBase):
        model = model.bound
    return type(model).__name__


def each_model(
    model: Runnable[Any, Any], change: Callable[[BaseLanguageModel[Any]], BaseLanguageModel[Any]]
) -> Runnable[Any, Any]:
    """`model` with its language models changed, in bindings, sequences and fallbacks too.

    The caller's model is never changed; without a change it is `model` itself."""
    if isinstance(model, BaseLanguageModel):
        return change(model)
    if isinstance(model, RunnableBindingBase):
        bound = each_model(model.bound, change)
        return model if bound is model.bound else model.model_copy(update={"bound": bound})
    if isinstance(model, RunnableSequence):
        steps = [each_model(step, change) for step in model.steps]
        if all(new is old for new, old in zip(steps, model.steps, strict=True)):
            return model
        return RunnableSequence(*steps, name=model.name)
    if isinstance(model, RunnableWithFallbacks):
        changed = {
            "runnable": each_model(model.runnable, change),
            "fallbacks": [each_model(one, change) for one in model.fallbacks],
        }
        return model.model_copy(update=changed)
    return model
