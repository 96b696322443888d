"""Load models by name, and any object by `python:module:attribute`."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from ...adapters.huggingface import HuggingFaceChatModel, HuggingFaceLM, model_folder
from ...adapters.langchain import ChatLimits, ChatModelLM
from ...guard.contracts import LanguageModel
from ...guard.errors import InputError, MissingDependencyError
from ..testbed import microworld_model_path

EMBEDDED = "embedded"
PYTHON = "python:"
_HINT = (
    f"`{EMBEDDED}`, `smollm2`, a folder with Hugging Face weights, `gguf:FILE`, `provider:model` "
    "as LangChain names it, or `python:module:attribute`"
)


def local_model(name: str) -> Path | None:
    """Return the folder of a model with local weights; None for any other name.

    Args:
        name: `embedded`, `smollm2`, `gguf:FILE` or a folder.

    Raises:
        ModelFolderError: the model was not downloaded, or its file is damaged.
        MissingDependencyError: a package is missing; the message names the command.
    """
    if name == EMBEDDED:
        return microworld_model_path()
    return Path(name) if Path(name).is_dir() else model_folder(name)


def load_language_model(
    name: str, *, max_concurrency: int = 8, timeout: float | None = 60.0
) -> LanguageModel:
    """Load a language model by name.

    A model with local weights can also score options; any other is called as a chat model.

    Args:
        name: as for `load_chat_model`; `python:…` may also name a `LanguageModel`.
        max_concurrency: concurrent calls of a chat model.
        timeout: seconds per call of a chat model.

    Raises:
        InputError: there is no such model.
        MissingDependencyError: a package is missing; the message names the command.
    """
    if (folder := local_model(name)) is not None:
        return HuggingFaceLM(folder)
    found = load_object(name) if name.startswith(PYTHON) else load_chat_model(name)
    if not isinstance(found, Runnable) and isinstance(found, LanguageModel):
        return found
    return ChatModelLM(
        _checked_runnable(found, name),
        limits=ChatLimits(max_concurrency=max_concurrency, timeout=timeout),
    )


def load_chat_model(name: str) -> Runnable[Any, Any]:
    """Load a chat model by name.

    Args:
        name: `embedded` (the bundled language model); `smollm2` (SmolLM2-135M-Instruct, once
            `knowgate models get smollm2` has downloaded it); `gguf:FILE`; a folder with Hugging
            Face weights; `provider:model` as LangChain's `init_chat_model` takes it (needs the
            packages `langchain` and the provider's); or `python:module:attribute`: a chat model, a
            runnable, or a function without arguments that returns one. Modules in the
            current folder can be imported.

    Raises:
        InputError: there is no such model.
        MissingDependencyError: a package is missing; the message names the command.
    """
    if name.startswith(PYTHON):
        return _checked_runnable(load_object(name), name)
    if (folder := local_model(name)) is not None:
        return HuggingFaceChatModel(lm=HuggingFaceLM(folder))
    provider, colon, _ = name.partition(":")
    if not colon or not provider:
        raise InputError("there is no such model", where=name, hint=_HINT)
    return _of_provider(name)


def _checked_runnable(found: object, name: str) -> Runnable[Any, Any]:
    if not isinstance(found, Runnable):
        raise InputError(
            f"is a {type(found).__name__}, not a chat model or runnable of LangChain",
            where=name,
            hint="name one, or a function without arguments that returns one",
        )
    return found


def _of_provider(name: str) -> BaseChatModel:
    try:
        from langchain.chat_models import init_chat_model
    except ImportError:
        raise MissingDependencyError(
            "a model by provider needs `pip install 'knowgate[langchain]'` and the provider's "
            "own package, e.g. `langchain-openai`"
        ) from None
    try:
        found: BaseChatModel = init_chat_model(name)
    except ImportError as error:
        # LangChain's message names the package to install.
        raise MissingDependencyError(str(error).partition("\n")[0]) from None
    except Exception as error:  # noqa: BLE001 - providers raise anything
        # A provider's message may hold a key: only its type is shown.
        raise InputError(
            f"the provider's package raised {type(error).__name__}",
            where=name,
            hint=f"check name and key; otherwise {_HINT}",
        ) from None
    return found


def import_object(name: str) -> Any:
    """Import the object that `python:module:attribute` names, as it is.

    Raises:
        InputError: there is no such module or attribute.
    """
    module_name, _, attribute = name.removeprefix(PYTHON).rpartition(":")
    if not name.startswith(PYTHON) or not module_name or not attribute:
        raise InputError("does not name an object", where=name, hint="python:module:attribute")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"cannot be imported ({type(error).__name__}: {error})",
            where=name,
            hint="check module and attribute; modules in the current folder can be imported",
        ) from None
    return found


def load_object(name: str) -> Any:
    """Load the object that `python:module:attribute` names; a plain function is called.

    Raises:
        InputError: there is no such module or attribute, or it cannot be made.
    """
    found = import_object(name)
    if callable(found) and not hasattr(found, "invoke") and not isinstance(found, type):
        try:
            return found()
        except Exception as error:
            raise InputError(
                f"calling it raised {type(error).__name__}",
                where=name,
                hint="the function must work without arguments",
            ) from error
    return found
