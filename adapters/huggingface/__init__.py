"""Hugging Face language models: sampling, decoding against conflict, a chat model.

The names are resolved on first use, so that importing this package loads neither
torch nor transformers nor LangChain.

Example:
    >>> from knowgate.adapters.huggingface import HuggingFaceLM
    >>> lm = HuggingFaceLM("path/to/model")  # doctest: +SKIP
    >>> lm.generate(["Q: Who runs it?\\nA:"], n=10, temperature=0.7, seed=1)  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._chat import HuggingFaceChatModel
    from ._gguf import PACKAGED_MODELS as PACKAGED_MODELS
    from ._gguf import get_model as get_model
    from ._gguf import model_folder
    from ._gguf import packaged_folder as packaged_folder
    from ._lm import HuggingFaceLM, LoadOptions

__all__ = [
    "HuggingFaceChatModel",
    "HuggingFaceLM",
    "LoadOptions",
    "model_folder",
]


_HOMES = {
    "PACKAGED_MODELS": "._gguf",
    "HuggingFaceChatModel": "._chat",
    "HuggingFaceLM": "._lm",
    "LoadOptions": "._lm",
    "get_model": "._gguf",
    "model_folder": "._gguf",
    "packaged_folder": "._gguf",
}


def __getattr__(name: str) -> Any:
    """Import the private module that holds `name` (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
