"""Load encoders for whichever backend is asked for, and their tokenizers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, optional_import
from ._backends import MANIFEST_FILE, LoadedEncoder, Runtime
from ._minilm import Marks, piece_ids


def load_encoder(
    model: str | os.PathLike[str] | None,
    runtime: Runtime,
    adapter: str | os.PathLike[str] | None = None,
) -> LoadedEncoder:
    """Load an encoder.

    Args:
        model: a sentence-transformers folder or hub id; for ONNX Runtime a folder that
            `knowgate export-onnx` wrote; None for the embedded all-MiniLM-L6-v2.
        runtime: what computes it.
        adapter: folder of a LoRA adapter that is added to the weights.

    Raises:
        InputError: ONNX Runtime without a folder, or with an adapter.
        ModelFolderError: weights are missing or cannot be loaded, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: a library is not installed.
    """
    if runtime.backend == "torch":
        from ._torch_backend import load_torch

        where = None if model is None else os.fspath(model)
        return load_torch(where, runtime, None if adapter is None else Path(adapter))
    if model is None or adapter is not None:
        raise InputError(
            "backend 'onnx' runs folders that were exported, adapters merged",
            where="backend",
            hint="run `knowgate export-onnx SCORER --out DIR` and load DIR",
        )
    from ._onnx_backend import load_onnx

    return load_onnx(Path(model), runtime)


def exported_as(folder: str | os.PathLike[str]) -> tuple[str, str] | None:
    """The kind and the dtype of the scorer that `knowgate export-onnx` wrote into a folder.

    None for any other folder.

    Raises:
        ModelFolderError: what it wrote is damaged.
    """
    # A scorer of several encoders has a folder for each.
    for place in (Path(folder), Path(folder) / "trained"):
        if (place / MANIFEST_FILE).is_file():
            from ._onnx_backend import Manifest

            manifest = Manifest.load(place)
            return manifest.scorer, manifest.dtype
    return None


def free_tokenizer(tokenizer: Any) -> Any | None:
    """An encoder's tokenizer without truncation and padding; None for a slow one.

    A copy where the model sets its own to truncate again whenever it encodes,
    which may be on another thread at this moment.
    """
    if isinstance(tokenizer, Marks):
        return tokenizer.backend_tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    library: Any = optional_import("tokenizers")
    copied = library.Tokenizer.from_str(backend.to_str())
    copied.no_truncation()
    copied.no_padding()
    return copied


def token_rows(tokenizer: Any, loaded: LoadedEncoder, texts: Sequence[str]) -> list[list[int]]:
    """The word-piece ids that an encoder reads of each text, special ones included.

    Args:
        tokenizer: of `free_tokenizer`.
        loaded: the encoder.
        texts: cut to the encoder's length.
    """
    marks, room = loaded.tokenizer, loaded.max_length - 2
    return [
        [
            marks.cls_token_id,
            *piece_ids(tokenizer, text.strip())[:room],
            marks.sep_token_id,
        ]
        for text in texts
    ]
