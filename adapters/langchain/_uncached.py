"""Models without LangChain's response cache.

A cache answers the same prompt with the same text. Samples taken through it are
all alike, and a model that only guesses would look certain.
"""

from __future__ import annotations

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
