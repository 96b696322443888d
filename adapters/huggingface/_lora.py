"""A LoRA adapter from peft's files, merged into the model that it was trained on.

Merged weights cost nothing per token, and every way of asking the model stays the same.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...guard.engine.embedded import read_tensors
from ...guard.engine.lora import LORA_HINT, read_adapter_file
from ...guard.errors import ModelFolderError, optional_import
from ...guard.files import read_bytes
from ...guard.model_files import ADAPTER_CONFIG, ADAPTER_WEIGHTS

# Written by knowgate's own training: names the base model by its weights.
TRAINING_FILE = "training.json"


def adapter_sha256(folder: Path) -> str:
    """Identify an adapter: the bytes of its configuration and its weights."""
    digest = hashlib.sha256()
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        content = read_bytes(folder / name)
        digest.update(f"{name}:{len(content)};".encode() + content)
    return digest.hexdigest()


def merge_adapter(
    model: Any, folder: Path, settings: dict[str, Any], weights_sha256: Callable[[], str]
) -> Any:
    """Add the adapter's products to the weights of `model`, and return it.

    Args:
        model: the base model; its weights change.
        folder: of the adapter.
        settings: as `lora_settings` returned them.
        weights_sha256: returns that of the base model's files; called only where the
            adapter names its base model.

    Raises:
        ModelFolderError: weights that cannot be read, are not finite, or belong to
            another model.
    """
    where, hint = str(folder), "use it with the model that it was trained on"
    stated = _base_sha256(folder)
    if stated is not None and stated != weights_sha256():
        what = f"was trained on other weights (sha256 {stated[:12]}…)"
        raise ModelFolderError(what, where=where, hint=hint)
    torch, peft = optional_import("torch"), optional_import("peft")
    tensors = read_tensors(folder / ADAPTER_WEIGHTS, "safetensors.torch")
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ModelFolderError(f"{name} holds NaN or infinity", where=where, hint=LORA_HINT)
    _reject_tied(model, tensors, where)
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            config = peft.LoraConfig(**settings, lora_dropout=0.0, inference_mode=True)
            grown = peft.get_peft_model(model, config)
            result = peft.set_peft_model_state_dict(grown, tensors)
    except Exception as error:
        # peft raises what its layers raise.
        what = f"the adapter does not fit this model ({type(error).__name__})"
        raise ModelFolderError(what, where=where, hint=hint) from error
    missing = sorted(name for name in result.missing_keys if ".lora_" in name)
    if unlike := [*missing, *sorted(result.unexpected_keys)]:
        what = f"the adapter's weights and its configuration differ, e.g. in {unlike[0]}"
        raise ModelFolderError(what, where=where, hint=LORA_HINT)
    return grown.merge_and_unload().eval()


def _base_sha256(folder: Path) -> str | None:
    """The sha256 of the base model's weights; None where the folder does not say."""
    path = folder / TRAINING_FILE
    identity = read_adapter_file(path).get("identity") if path.is_file() else None
    stated = identity.get("base_sha256") if isinstance(identity, dict) else None
    return stated if isinstance(stated, str) else None


def _reject_tied(model: Any, tensors: dict[str, Any], where: str) -> None:
    """Reject an adapter of an output layer that shares its weights with the embeddings."""
    output, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    if output is None or output.weight is not embeddings.weight:
        return
    shared = {name for name, one in model.named_modules() if one is output or one is embeddings}
    if any(f".{name}." in key for key in tensors for name in shared):
        what = "the adapter changes the output layer, which this model shares with its embeddings"
        raise ModelFolderError(what, where=where, hint="train it on the other linear layers")
