"""LoRA adapters in peft's file format: begun on a base model, and written."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...guard.engine.causal_model import choose_device, load_causal
from ...guard.errors import DeviceError, optional_import
from ...guard.files import file_sha256, read_json, write_json

_WEIGHTS_FILE, _CONFIG_FILE = "adapter_model.safetensors", "adapter_config.json"
# Says that the folder is complete, so it comes last.
TRAINING_FILE = "training.json"
SCHEMA = 1


def write_adapter(model: Any, folder: Path, *, base: str | None = None, half: bool = False) -> str:
    """Write peft's two files into an existing folder; returns the sha256 of the weights.

    Args:
        model: peft's.
        folder: to write to.
        base: name of the base model; a path of this machine says nothing elsewhere.
        half: weights in float16.
    """
    # Not "auto", which asks the hub whether the vocabulary is another.
    model.save_pretrained(str(folder), safe_serialization=True, save_embedding_layers=False)
    (folder / "README.md").unlink(missing_ok=True)
    config = read_json(folder / _CONFIG_FILE)
    config["base_model_name_or_path"] = base
    config["target_modules"] = sorted(config["target_modules"])
    write_json(folder / _CONFIG_FILE, config)
    library = optional_import("safetensors.torch")
    weights = folder / _WEIGHTS_FILE
    tensors = {
        name: (one.half() if half else one).contiguous()
        for name, one in library.load_file(weights).items()
    }
    # Written again: the library's file is readable by its owner only.
    weights.unlink()
    weights.write_bytes(library.save(tensors, metadata={"format": "pt"}))
    return file_sha256(weights)


def finished_training(folder: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `training.json` says when the folder holds the adapter of just this training.

    Args:
        folder: where the adapter would be written.
        identity: what makes a training this one; compared with the file's `identity`.

    Returns:
        The file's content; None when there is no such file, another training or other weights.
    """
    if not (folder / TRAINING_FILE).is_file() or not (folder / _WEIGHTS_FILE).is_file():
        return None
    found = read_json(folder / TRAINING_FILE)
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return None
    same = found.get("identity") == json.loads(json.dumps(identity))
    whole = found.get("adapter_sha256") == file_sha256(folder / _WEIGHTS_FILE)
    return found if same and whole else None


def training_device(asked: str) -> Any:
    """The torch device to train on.

    Raises:
        DeviceError: it is not there.
    """
    device = choose_device(asked)
    if device.type not in {"cpu", "cuda"}:
        raise DeviceError(f"cannot train on {asked!r} — use 'auto', 'cpu' or 'cuda'")
    return device


def trainable_model(
    folder: Path, device: Any, *, dtype: str, rank: int, alpha: int
) -> tuple[Any, Any]:
    """Load a base model, put a fresh LoRA adapter on it, and return it with its tokenizer.

    Only the adapter is trained, in float32; the frozen weights have the precision of
    `dtype`. Random numbers come from torch.

    Raises:
        ModelFolderError: the folder cannot be read as a causal LM with a tokenizer.
        DeviceError: the model does not fit on the device.
    """
    torch, peft = optional_import("torch"), optional_import("peft")
    wide = device.type == "cpu" or not torch.cuda.is_bf16_supported()
    named = ("float32" if wide else "bfloat16") if dtype == "auto" else dtype
    model, tokenizer = load_causal(folder, getattr(torch, named), device)
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=rank,
        lora_alpha=alpha,
        target_modules="all-linear",
    )
    with warnings.catch_warnings():
        # peft sets `fan_in_fan_out` itself where a model's layers are the other way round.
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)  # between the libraries
        grown = peft.get_peft_model(model, config)
    # Dropout stays off: a few epochs of a small adapter need none.
    return grown.eval(), tokenizer
