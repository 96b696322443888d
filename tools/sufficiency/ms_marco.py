"""Weights of the reranker that `knowgate models ms-marco` downloads, by the names of transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from knowgate.guard.model_files import MS_MARCO, MS_MARCO_SHA256, downloaded_model

_QUANTISED = "_quantized"
CONFIGURATION = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}


def ms_marco_folder() -> Path:
    """Where the reranker was downloaded to.

    Raises:
        ModelFolderError: it was not.
    """
    return downloaded_model(MS_MARCO, MS_MARCO_SHA256)


def ms_marco_weights() -> dict[str, NDArray[np.float32]]:
    """All weights in float32, each the exact value that the quantised graph stands for."""
    graph = onnx.load(str(ms_marco_folder() / "int8" / "model.onnx")).graph
    stored: dict[str, Any] = {one.name: one for one in graph.initializer}

    def values(name: str) -> NDArray[Any]:
        return numpy_helper.to_array(stored[name])

    def whole(stem: str) -> NDArray[np.float32]:
        zero = values(f"{stem}_zero_point").astype(np.int32)
        found = values(stem + _QUANTISED).astype(np.int32) - zero
        return found.astype(np.float32) * values(f"{stem}_scale").astype(np.float32)

    found = {
        name: values(name).astype(np.float32)
        for name in stored
        if name.endswith((".weight", ".bias"))
    }
    for node in graph.node:
        for name in node.input:
            if name not in stored or not name.endswith(_QUANTISED):
                continue
            stem = name.removesuffix(_QUANTISED)
            if node.op_type == "MatMulInteger":
                module = node.name.rpartition("/")[0].strip("/").replace("/", ".")
                found[f"{module}.weight"] = np.ascontiguousarray(whole(stem).T)
            else:
                found[stem] = whole(stem)
    return found
