"""Load encoders for whichever backend is asked for."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError
from .backends import MANIFEST_FILE, LoadedEncoder, Runtime


def load_encoder(
    model: str | os.PathLike[str] | None,
    runtime: Runtime,
    adapter: str | os.PathLike[str] | None = None,
) -> LoadedEncoder:
    """Load an encoder.

    Args:
        model: a sentence-transformers folder or hub id; for ONNX Runtime a folder that
            `export_scorer` wrote; None for the embedded all-MiniLM-L6-v2.
        runtime: what computes it.
        adapter: folder of a LoRA adapter that is added to the weights.

    Raises:
        InputError: an adapter for an exported folder, or a dtype that the model does not have.
        ModelFolderError: weights are missing or cannot be loaded, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: a library is not installed.
    """
    changes = None if adapter is None else Path(adapter)
    if runtime.backend == "torch":
        from ._torch_backend import load_torch

        return load_torch(None if model is None else os.fspath(model), runtime, changes)
    from ._onnx_backend import load_embedded_onnx, load_onnx

    if model is None:
        return load_embedded_onnx(runtime, changes)
    if adapter is not None:
        raise InputError(
            "an exported model takes no adapter",
            where="adapter",
            hint="adapters are merged when a scorer is exported",
        )
    return load_onnx(Path(model), runtime)


def load_cross_encoder(
    model: str | os.PathLike[str] | None,
    runtime: Runtime,
    adapter: str | os.PathLike[str] | None = None,
) -> LoadedEncoder:
    """Load a cross-encoder: a model of transformers that reads pairs, or an exported one.

    Args:
        model: a folder or hub id; None for the embedded model, changed by `adapter`.
        runtime: what computes it.
        adapter: folder that makes the embedded model a cross-encoder.

    Raises:
        InputError: there are both a model and an adapter, or none of them, or the backend
            does not have the model.
        ModelFolderError: weights are missing or cannot be loaded, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: a library is not installed.
    """
    if (model is None) == (adapter is None):
        raise InputError("name either a model or an adapter", where="model")
    if runtime.backend == "onnx":
        if model is None:
            raise InputError(
                "the bundled cross-encoder does not run in ONNX Runtime",
                where="backend",
                hint="use backend torch",
            )
        from ._onnx_backend import load_onnx

        return load_onnx(Path(model), runtime)
    from ._torch_backend import load_embedded_cross_encoder, load_torch_cross_encoder

    if adapter is not None:
        return load_embedded_cross_encoder(Path(adapter), runtime)
    return load_torch_cross_encoder(os.fspath(model or ""), runtime)


def exported_as(folder: str | os.PathLike[str]) -> tuple[str, str] | None:
    """The kind and the dtype of the scorer that `export_scorer` wrote into a folder.

    None for any other folder.

    Raises:
        ModelFolderError: what it wrote is damaged.
    """
    if not (Path(folder) / MANIFEST_FILE).is_file():
        return None
    from ._onnx_backend import Manifest

    manifest = Manifest.load(Path(folder))
    return manifest.scorer, manifest.dtype
