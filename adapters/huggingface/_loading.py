"""Load a model and its tokenizer from a folder or by hub name, after checks.

Only safetensors weights are read, and no code from the folder is ever run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ...guard.engine.causal_model import (
    choose_device,
    end_ids,
    load_causal,
    require_causal,
    weights_sha256,
)
from ...guard.engine.lora import lora_settings
from ...guard.engine.model_folder import model_folder
from ...guard.errors import DeviceError, ModelFolderError, optional_import, require_extra
from ...guard.files import json_sha256, read_json
from ._lora import adapter_sha256, merge_adapter

if TYPE_CHECKING:
    import torch


_DTYPES = ("bfloat16", "float16", "float32", "float64")


def choose_dtype(asked: str, device: torch.device) -> torch.dtype | str:
    """Return the precision to load in; `"auto"` is the one the weights are stored in.

    `auto` is float32 on the CPU, where 16-bit arithmetic is slow or inexact, bfloat16 on a
    CUDA device that has it, and the stored precision elsewhere.

    Raises:
        DeviceError: an unknown name, or a precision that the device lacks.
    """
    import torch

    if asked == "auto":
        if device.type == "cuda" and torch.cuda.is_bf16_supported():
            return torch.bfloat16
        return torch.float32 if device.type == "cpu" else "auto"
    if asked not in _DTYPES or (asked == "float64" and device.type == "mps"):
        raise DeviceError(f"{device} has no dtype {asked!r} — use 'auto' or one of {_DTYPES}")
    dtype: torch.dtype = getattr(torch, asked)
    return dtype


# Parts of a configuration that change no answer, or that fingerprints hold apart.
_VOLATILE = frozenset(
    {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache"}
)


def state_sha256(model: Any) -> str:
    """sha256 over the tensors, names and shapes of a model that was not loaded from files."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)};".encode())
        flat = tensor.detach().to("cpu").contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy())
    return digest.hexdigest()


def configuration_sha256(model: Any, folder: Path | None) -> str:
    """sha256 of a model's configuration, but for its path, precision and versions.

    Two folders of the same weights give other answers where, say, the angles of their position
    embeddings or their end tokens differ.

    Args:
        model: asked where it was not loaded from files.
        folder: what it was loaded from.
    """
    if folder is None:
        parts = [model.config.to_diff_dict(), {"eos_token_id": sorted(end_ids(model, None))}]
    else:
        files = [folder / name for name in ("config.json", "generation_config.json")]
        parts = [read_json(path) for path in files if path.is_file()]
    return json_sha256([_without_volatile(part) for part in parts], str)


def _without_volatile(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {str(k): _without_volatile(v) for k, v in value.items() if k not in _VOLATILE}


def tokenizer_sha256(tokenizer: Any) -> str:
    """sha256 of a tokenizer's vocabulary, rules and chat template."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules: dict[str, Any] = (
        json.loads(backend.to_str()) if backend is not None else {"vocab": tokenizer.get_vocab()}
    )
    # Padding and truncation are set per call, so they are no part of the identity.
    for volatile in ("padding", "truncation"):
        rules.pop(volatile, None)
    rules["chat_template"] = getattr(tokenizer, "chat_template", None)
    return json_sha256(rules, str)


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a model folder is loaded.

    Attributes:
        chat_template: whether each prompt becomes one user message of the model's
            chat template; `auto` when it has one.
        sha256: expected sha256 of the weights: of `model.safetensors`, or of all
            `*.safetensors` in name order as one stream.
        local_files_only: False allows downloading a hub model.
        device_map: for models over one GPU: how transformers spreads the layers, e.g. `auto`
            or `balanced`, in place of `device`; needs accelerate.
    """

    chat_template: bool | Literal["auto"] = "auto"
    sha256: str | None = None
    local_files_only: bool = True
    device_map: str | None = None


# What tells a model from others, by name. Hashes that take long are computed when they are asked
# for, and once.
ModelIdentity = dict[str, Callable[[], str]]


def model_identity(
    model: Any,
    tokenizer: Any,
    folder: Path | None = None,
    weights: Callable[[], str] | None = None,
    adapter: Path | None = None,
) -> ModelIdentity:
    """Return weights, configuration and tokenizer, and the adapter where there is one.

    Args:
        model: before an adapter is merged; hashed itself where it was not loaded from files.
        tokenizer: its tokenizer.
        folder: what it was loaded from.
        weights: returns the sha256 of its files, likewise.
        adapter: folder of the one that is merged into the weights; None without one.
    """
    configuration = configuration_sha256(model, folder)
    found: ModelIdentity = {
        "weights": weights or cache(partial(state_sha256, model)),
        "configuration": lambda: configuration,
        "tokenizer": cache(partial(tokenizer_sha256, tokenizer)),
    }
    if adapter is not None:
        # Hashed now: the folder may hold another adapter later.
        merged = adapter_sha256(adapter)
        found["adapter"] = lambda: merged
    return found


def open_model(
    path_or_name: str | Path,
    device: str,
    dtype: str,
    adapter: str | Path | None,
    loading: LoadOptions,
) -> tuple[Any, Any, ModelIdentity]:
    """Load model, tokenizer and identity, after all checks.

    Arguments and errors are those of `HuggingFaceLM`.
    """
    require_extra("hf")
    place = choose_device(device)
    precision = choose_dtype(dtype, place)
    folder = model_folder(path_or_name, bare=True, local=loading.local_files_only)
    files = require_causal(folder)
    changes = None if adapter is None else Path(adapter)
    settings = {} if changes is None else lora_settings(changes)
    weights = cache(partial(weights_sha256, files))
    if loading.sha256 is not None and weights() != loading.sha256.strip().lower():
        what = f"the weights have sha256 {weights()}, not the expected {loading.sha256}"
        hint = "download them again, or correct the expected value"
        raise ModelFolderError(what, where=str(folder), hint=hint)
    spread = {} if loading.device_map is None else {"device_map": loading.device_map}
    if spread:
        optional_import("accelerate")
    model, tokenizer = load_causal(folder, precision, place, **spread)
    identity = model_identity(model, tokenizer, files[0].parent, weights, changes)
    if changes is not None:
        model = merge_adapter(model, changes, settings, weights)
    return model, tokenizer, identity
