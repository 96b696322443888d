"""The downloaded reranker, ms-marco-MiniLM-L-12-v2, in ONNX Runtime, as it is or changed.

`knowgate models ms-marco` writes into a folder the weights in float32 that the integers of a
quantised graph stand for. The graphs that compute with them are bundled, without weights;
`python -m tools.reader_model` writes them. With a LoRA adapter and a head it is the cross-encoder
of the scorer `sufficiency_cross`.

Source: Wang et al. 2020, MiniLM; the model is cross-encoder/ms-marco-MiniLM-L-12-v2 (Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import ModelFolderError
from ..files import file_sha256
from ..model_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    HEAD_WEIGHTS,
    MS_MARCO,
    READER_FILES,
    Converted,
    require_files,
)
from ._tokenizing import TOKENIZER_FILE, Marks
from .backends import READER_FILE, LoadedEncoder, Runtime, Settings
from .embedded import (
    DATA,
    ENCODER_WEIGHTS,
    QKV,
    Weights,
    bundled_backend,
    merge_adapter,
    read_tensors,
)

_WIDTH = 384
# Word pieces of a pair; as the adapter was trained.
_MAX_PIECES, _TRAINED_PIECES = 512, 176
_HEAD = {
    "pooler.dense.weight": (_WIDTH, _WIDTH),
    "pooler.dense.bias": (_WIDTH,),
    "classifier.weight": (1, _WIDTH),
    "classifier.bias": (1,),
}


def load_reader(folder: Path, runtime: Runtime, adapter: Path | None = None) -> LoadedEncoder:
    """Load the reranker from the folder that `knowgate models ms-marco` wrote.

    Args:
        folder: with its weights and tokenizer.
        runtime: what computes it.
        adapter: folder of a LoRA adapter and of `head.safetensors`, which change it.

    Raises:
        InputError: another dtype than float32 or int8.
        ModelFolderError: a file is missing, damaged or not the expected one.
        DeviceError: the device is not there, or does not compute in int8.
    """
    require_files(DATA, READER_FILES)
    names = (ENCODER_WEIGHTS, TOKENIZER_FILE)
    source = Converted.read(folder, READER_FILE, f"knowgate models {MS_MARCO}", names)
    weights: Weights = read_tensors(folder / ENCODER_WEIGHTS)
    own: Settings = {}
    if adapter is not None:
        merge_adapter(weights, adapter)
        weights.update(_head(adapter))
        files = {"adapter_config": ADAPTER_CONFIG, "adapter": ADAPTER_WEIGHTS, "head": HEAD_WEIGHTS}
        own = {f"{name}_sha256": file_sha256(adapter / file) for name, file in files.items()}
    return LoadedEncoder(
        bundled_backend(DATA / "reader.onnx", MS_MARCO, weights, runtime),
        Marks.read(folder),
        folder,
        _MAX_PIECES if adapter is None else _TRAINED_PIECES,
        source.sha256,
        source.files[TOKENIZER_FILE],
        own,
        takes_types=True,
    )


def as_graphs_take_them(weights: Mapping[str, NDArray[np.float32]]) -> Weights:
    """The weights as the folder holds them and the graphs take them.

    Args:
        weights: by the names of transformers, those of products of shape (inputs, outputs).
    """
    found: Weights = {}
    for name, one in weights.items():
        own = name.removeprefix("bert.")
        parts = [weights[name.replace(QKV[0], part)] for part in QKV if QKV[0] in own]
        if parts:  # side by side
            found[own.replace(QKV[0], "qkv")] = np.concatenate(parts, axis=-1)
        elif not any(f".{part}." in own for part in QKV):
            found[own] = np.ascontiguousarray(one)
    return found


def _head(adapter: Path) -> Weights:
    head = read_tensors(adapter / HEAD_WEIGHTS)
    if {name: one.shape for name, one in head.items()} != _HEAD:
        raise ModelFolderError(
            "its weights are not those of a pooler and a classifier of one logit",
            where=str(adapter / HEAD_WEIGHTS),
            hint="use the bundled folder",
        )
    return {name: np.ascontiguousarray(one.astype(np.float32).T) for name, one in head.items()}
