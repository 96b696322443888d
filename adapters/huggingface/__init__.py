"""Hugging Face language models: sampling, decoding against conflict, a chat model.

Importing this package loads neither torch nor transformers.

Example:
    >>> from knowgate.adapters.huggingface import HuggingFaceLM
    >>> lm = HuggingFaceLM("path/to/model")  # doctest: +SKIP
    >>> lm.generate(["Q: Who runs it?\\nA:"], n=10, temperature=0.7, seed=1)  # doctest: +SKIP
"""

from __future__ import annotations

from ._chat import HuggingFaceChatModel
from ._lm import HuggingFaceLM
from ._loading import LoadOptions
from ._packaged import PACKAGED_MODELS as PACKAGED_MODELS
from ._packaged import get_model as get_model
from ._packaged import model_folder
from ._packaged import packaged_folder as packaged_folder

__all__ = ["HuggingFaceChatModel", "HuggingFaceLM", "LoadOptions", "model_folder"]
