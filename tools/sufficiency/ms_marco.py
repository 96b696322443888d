"""Weights of the downloaded reranker (`knowgate models ms-marco`), as transformers calls them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from knowgate.adapters.huggingface.quantised_weights import quantised_weights
from knowgate.guard.model_files import reranker_folder

CONFIGURATION = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}


def ms_marco_weights() -> dict[str, NDArray[np.float32]]:
    """All weights in float32, as torch holds them."""
    found = quantised_weights(reranker_folder() / "int8" / "model.onnx")
    return {
        name: np.ascontiguousarray(one.T) if one.ndim == 2 and ".embeddings." not in name else one
        for name, one in found.items()
    }
