"""Load encoders for whichever backend is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..errors import InputError
from ..files import read_json
from ._backends import MANIFEST_FILE, LoadedEncoder, Runtime
from ._fallback import shared_and_protected
from ._model_folder import MODULES_FILE, model_folder
from ._pair_output import reads_pairs


def load_encoder(
    model: str | os.PathLike[str] | None,
    runtime: Runtime,
    adapter: str | os.PathLike[str] | None = None,
) -> LoadedEncoder:
    """Load an encoder; off the CPU, one that threads share and that goes on when it fails.

    Args:
        model: a sentence-transformers folder or hub id; for ONNX Runtime a folder that
            `knowgate export-onnx` wrote; None for the embedded all-MiniLM-L6-v2.
        runtime: what computes it.
        adapter: folder of a LoRA adapter that is added to the weights.

    Raises:
        InputError: an adapter for an exported folder, or a dtype that the model does not have.
        ModelFolderError: weights are missing or cannot be loaded, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: a library is not installed.
    """
    return _shared(partial(_encoder, model, adapter), runtime)


def _encoder(
    model: str | os.PathLike[str] | None,
    adapter: str | os.PathLike[str] | None,
    runtime: Runtime,
) -> LoadedEncoder:
    if runtime.backend == "torch":
        from ._torch_backend import load_torch

        where = None if model is None else os.fspath(model)
        return load_torch(where, runtime, None if adapter is None else Path(adapter))
    if model is None:
        from ._onnx_backend import load_embedded_onnx

        return load_embedded_onnx(runtime, None if adapter is None else Path(adapter))
    if adapter is not None:
        raise InputError(
            "an exported model takes no adapter",
            where="adapter",
            hint="adapters are merged when a scorer is exported",
        )
    return _exported(model, runtime)


def load_cross_encoder(
    model: str | os.PathLike[str] | None,
    runtime: Runtime,
    adapter: str | os.PathLike[str] | None = None,
) -> LoadedEncoder:
    """Load a cross-encoder: a model of transformers that reads pairs, or an exported one.

    Off the CPU it is one that threads share and that goes on when it fails.

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
    return _shared(partial(_cross_encoder, model, adapter), runtime)


def _shared(load: Callable[[Runtime], LoadedEncoder], runtime: Runtime) -> LoadedEncoder:
    return shared_and_protected(load(runtime), lambda: load(replace(runtime, device="cpu")))


def _cross_encoder(
    model: str | os.PathLike[str] | None,
    adapter: str | os.PathLike[str] | None,
    runtime: Runtime,
) -> LoadedEncoder:
    in_torch = runtime.backend == "torch"
    if model is not None and adapter is None:
        if not in_torch:
            return _exported(model, runtime)
        from ._torch_backend import load_torch_cross_encoder

        return load_torch_cross_encoder(os.fspath(model), runtime)
    if model is not None or adapter is None:
        raise InputError("name either a model or an adapter", where="model")
    if not in_torch:
        raise InputError(
            "the bundled cross-encoder does not run in ONNX Runtime",
            where="backend",
            hint="use backend torch",
        )
    from ._torch_backend import load_embedded_cross_encoder

    return load_embedded_cross_encoder(Path(adapter), runtime)


def _exported(model: str | os.PathLike[str], runtime: Runtime) -> LoadedEncoder:
    from ._onnx_backend import load_onnx

    return load_onnx(Path(model), runtime)


def find_model(model: str | os.PathLike[str]) -> tuple[Path, bool]:
    """The folder of a model, and whether it reads question and passage together.

    Args:
        model: a folder, or a hub id, which is downloaded where it is not there yet.

    Raises:
        ModelFolderError: it is neither.
        InputError: its configuration is not JSON.
    """
    folder = model_folder(model)
    config, modules = (
        read_json(path) if path.is_file() else None
        for path in (folder / "config.json", folder / MODULES_FILE)
    )
    return folder, reads_pairs(config, modules)


def exported_as(folder: str | os.PathLike[str]) -> tuple[str, str] | None:
    """The kind and the dtype of the scorer that `knowgate export-onnx` wrote into a folder.

    None for any other folder.

    Raises:
        ModelFolderError: what it wrote is damaged.
    """
    if not (Path(folder) / MANIFEST_FILE).is_file():
        return None
    from ._onnx_backend import Manifest

    manifest = Manifest.load(Path(folder))
    return manifest.scorer, manifest.dtype
