"""The bundled encoder, all-MiniLM-L6-v2, with LoRA adapters merged into it, in ONNX Runtime.

Its matrices are stored as int8 with one scale for 32 numbers of an output, and become float32
when they are loaded, so that scores do not depend on how a processor multiplies integers. With
`dtype="int8"` products are computed in integers: faster, other scores. Weights then have seven
bits, since sums of products of eight overflow on processors without VNNI.

An adapter is added to the weights on loading, as peft does it, `W + (lora_alpha / r) · B·A`, and
costs nothing per text.

The weights are those of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0);
`python -m tools.embedded_model` writes the files.

Source of adapters: Hu et al. 2021, LoRA: Low-Rank Adaptation of Large Language Models.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, ModelFolderError, optional_import
from ..files import file_sha256
from ..model_files import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    EMBEDDED_FILES,
    EMBEDDED_SHA256,
    HEAD_WEIGHTS,
    MS_MARCO,
    READER_FILES,
    WEIGHTS,
    Converted,
    require_files,
)
from ._onnx_backend import OnnxBackend
from ._tokenizing import TOKENIZER_FILE, Marks
from .backends import READER_FILE, LoadedEncoder, Runtime, Settings
from .lora import LORA_HINT, SCALED, lora_settings

DATA = Path(__file__).parent / "data"
ENCODER_WEIGHTS = "encoder.safetensors"
# Behind the name of an int8 matrix: its scales.
SCALE = ".scale"
WORDS = "embeddings.word_embeddings.weight"
# Word pieces of a text.
MAX_PIECES = 256
# Numbers of an output that share a scale.
GROUP = 32
_LAYER = "encoder.layer."
QKV = ("query", "key", "value")
_PREFIX = "base_model.model."

Weights = dict[str, NDArray[Any]]


def load_embedded(runtime: Runtime, adapter: Path | None = None) -> LoadedEncoder:
    """Load the bundled encoder.

    Raises:
        InputError: another dtype than float32 or int8.
        ModelFolderError: a file is missing, damaged or not the expected one.
        DeviceError: the device is not there, or does not compute in int8.
    """
    return LoadedEncoder(
        bundled_backend(DATA / "encoder.onnx", "the bundled model", _weights(adapter), runtime),
        Marks.read(DATA),
        DATA,
        MAX_PIECES,
        EMBEDDED_SHA256,
        EMBEDDED_FILES[TOKENIZER_FILE],
        {},
    )


def bundled_backend(graph: Path, what: str, weights: Weights, runtime: Runtime) -> OnnxBackend:
    """Return what computes a bundled graph.

    Args:
        graph: its file; the name of that in int8 has an ending more.
        what: computes, for a message.
        weights: in float32.
        runtime: device and precision.

    Raises:
        InputError: the precision is another than float32 or int8.
    """
    dtype = runtime.dtype or "float32"
    if dtype not in ("float32", "int8"):
        raise InputError(f"{what} computes in float32 or int8, not {dtype}", where="dtype")
    if dtype == "int8":
        weights, graph = dict(in_seven_bits(weights)), graph.with_stem(f"{graph.stem}_int8")
    return OnnxBackend(graph, runtime.device, dtype, weights)


def save_embedded(folder: Path) -> None:
    """Write the bundled encoder in float32 as a folder of sentence-transformers.

    For libraries that train it or compare with it.
    """
    library = optional_import("safetensors.numpy")
    for name, content in json.loads((DATA / "configuration.json").read_text("utf-8")).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    shutil.copyfile(DATA / TOKENIZER_FILE, folder / TOKENIZER_FILE)
    weights = dict(_as_transformers_names())
    library.save_file(weights, str(folder / WEIGHTS), metadata={"format": "pt"})


def read_tensors(path: Path, library: str = "safetensors.numpy") -> dict[str, Any]:
    """Read the tensors of a file of safetensors, at least one.

    Args:
        path: of the file.
        library: that reads it, which decides what the tensors are.

    Raises:
        ModelFolderError: it is not there, or not such a file.
    """
    read = optional_import(library).load_file
    try:
        found: dict[str, Any] = read(str(path))
        what = "" if found else "holds no tensor"
    except FileNotFoundError:
        what = "no such file"
    except Exception as error:  # noqa: BLE001 - safetensors has an error class of its own
        what = f"cannot be read as safetensors ({type(error).__name__})"
    if what:
        raise ModelFolderError(what, where=str(path), hint=LORA_HINT)
    return found


def _weights(adapter: Path | None = None) -> Weights:
    """The matrices of products in float32 as graphs take them, an adapter added.

    Raises:
        ModelFolderError: a file is missing, damaged or not the expected one.
    """
    require_files(DATA, EMBEDDED_FILES)
    library = optional_import("safetensors")
    with library.safe_open(DATA / ENCODER_WEIGHTS, framework="np") as file:
        weights = products_in_float32(file)
    if adapter is not None:
        merge_adapter(weights, adapter)
    return weights


def products_in_float32(file: Any) -> Weights:
    """The matrices of the layers of an open file of safetensors, each with its scales."""
    weights: Weights = {}
    # One after the other, so that they are not all held twice.
    for name in file.keys():  # noqa: SIM118 - not a mapping
        if name.startswith(_LAYER) and name.endswith(SCALE):
            product = name.removesuffix(SCALE)
            scale = file.get_tensor(name).astype(np.float32)
            groups = file.get_tensor(product).reshape(len(scale), GROUP, -1)
            weights[product] = (groups * scale[:, None]).reshape(-1, scale.shape[1])
    return weights


def in_seven_bits(weights: Weights) -> Iterator[tuple[str, NDArray[Any]]]:
    """The weights of the layers as integers, with one scale for each output."""
    for name, one in weights.items():
        if name.startswith(_LAYER) and one.ndim == 2:
            scale = np.abs(one).max(axis=0) / np.float32(63)
            yield name, np.rint(one / scale).astype(np.int8)
            yield name + SCALE, scale
        else:
            yield name, one


def _as_transformers_names() -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The weights in float32, by the names and in the layout of transformers."""
    stored, products = read_tensors(DATA / ENCODER_WEIGHTS), _weights()
    yield WORDS, stored[WORDS] * stored[WORDS + SCALE]
    for name, one in stored.items():
        if name == WORDS or name.endswith(SCALE):
            continue
        own = products[name].T if name in products else one
        if ".qkv." in name:
            for part, rows in zip(QKV, np.split(own, 3), strict=True):
                yield name.replace("qkv", part), np.ascontiguousarray(rows)
        else:
            yield name, np.ascontiguousarray(own)


def merge_adapter(weights: Weights, folder: Path) -> None:
    """Add the LoRA adapter in `folder` to weights.

    Raises:
        ModelFolderError: no plain LoRA adapter, or one made for another model.
    """
    settings = lora_settings(folder, SCALED)
    rank, scale = settings["r"], np.float32(settings["lora_alpha"] / settings["r"])
    tensors = read_tensors(folder / ADAPTER_WEIGHTS)
    names = sorted({name.rsplit(".lora_", 1)[0] for name in tensors})
    expected = {f"{name}.lora_{part}.weight" for name in names for part in "AB"}
    fault = "" if expected == set(tensors) else "the weights are not those of a plain LoRA adapter"
    hint = LORA_HINT
    for name in names if not fault else ():
        down, up = (tensors[f"{name}.lora_{part}.weight"].astype(np.float32) for part in "AB")
        weight = _columns(weights, name.removeprefix(_PREFIX))
        shapes = None if weight is None else ((rank, weight.shape[0]), (weight.shape[1], rank))
        if weight is None or (down.shape, up.shape) != shapes:
            fault = f"the adapter's {name!r} does not fit this model"
            hint = "use it with the model it was made for"
            break
        added = scale * (up @ down)
        if not np.isfinite(added).all():
            fault = f"the adapter's {name!r} holds NaN or infinity"
            break
        weight += added.T
    if fault:
        raise ModelFolderError(fault, where=str(folder), hint=hint)


def _columns(weights: Weights, name: str) -> NDArray[np.float32] | None:
    """The weights of one module, by the name that transformers gives it; None if not there."""
    module, _, part = name.rpartition(".")
    if part not in QKV:
        return weights.get(f"{name}.weight") if name.startswith(_LAYER) else None
    found = weights.get(f"{module}.qkv.weight")
    return None if found is None else np.split(found, 3, axis=1)[QKV.index(part)]


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
        what = "its weights are not those of a pooler and a classifier of one logit"
        where = str(adapter / HEAD_WEIGHTS)
        raise ModelFolderError(what, where=where, hint="use the bundled folder")
    return {name: np.ascontiguousarray(one.astype(np.float32).T) for name, one in head.items()}
