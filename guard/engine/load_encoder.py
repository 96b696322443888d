"""Load encoders: the bundled and exported ones in ONNX Runtime, all others in torch."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import InputError
from .backends import MANIFEST_FILE, MULTILINGUAL_FILE, READER_FILE, LoadedEncoder, Runtime


def load_encoder(
    model: str | os.PathLike[str] | None,
    runtime: Runtime,
    adapter: str | os.PathLike[str] | None = None,
) -> LoadedEncoder:
    """Load an encoder.

    Args:
        model: a sentence-transformers folder or hub id, or a folder that `export_scorer`
            or `knowgate models multilingual` wrote; None for the bundled all-MiniLM-L6-v2.
        runtime: where it is computed, and how.
        adapter: folder of a LoRA adapter that is added to the bundled weights.

    Raises:
        InputError: an adapter for another model, or a dtype that the model does not have.
        ModelFolderError: weights are missing or cannot be loaded, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: a library is not installed.
    """
    if model is None:
        from .embedded import load_embedded

        return load_embedded(runtime, None if adapter is None else Path(adapter))
    if adapter is not None:
        raise InputError("an adapter is for the bundled encoder", where="adapter")
    if exported_as(model) is not None:
        from ._onnx_backend import load_onnx

        return load_onnx(Path(model), runtime)
    if (Path(model) / MULTILINGUAL_FILE).is_file():
        from .multilingual import load_multilingual

        return load_multilingual(Path(model), runtime)
    from ._torch_backend import load_torch

    return load_torch(os.fspath(model), runtime)


def load_cross_encoder(
    model: str | os.PathLike[str],
    runtime: Runtime,
    adapter: str | os.PathLike[str] | None = None,
) -> LoadedEncoder:
    """Load a cross-encoder: a model of transformers that reads pairs, or an exported one.

    Args:
        model: a folder or hub id; that of the downloaded reranker may be changed by `adapter`.
        runtime: what computes it.
        adapter: folder that changes the downloaded reranker.

    Raises:
        InputError: an adapter for another model, or the model does not have the dtype.
        ModelFolderError: weights are missing or cannot be loaded, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: a library is not installed.
    """
    if (Path(model) / READER_FILE).is_file():
        from .embedded import load_reader

        return load_reader(Path(model), runtime, None if adapter is None else Path(adapter))
    if adapter is not None:
        raise InputError("an adapter is for the downloaded reranker", where="adapter")
    if exported_as(model) is not None:
        from ._onnx_backend import load_onnx

        return load_onnx(Path(model), runtime)
    from ._torch_backend import load_torch_cross_encoder

    return load_torch_cross_encoder(os.fspath(model), runtime)


def exported_as(folder: str | os.PathLike[str]) -> str | None:
    """The kind of the scorer that `export_scorer` wrote into a folder.

    None for any other folder.

    Raises:
        ModelFolderError: what it wrote is damaged.
    """
    if not (Path(folder) / MANIFEST_FILE).is_file():
        return None
    from ._onnx_backend import Manifest

    return Manifest.load(Path(folder)).scorer
