"""Adapters in peft's file format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...guard.errors import optional_import
from ...guard.files import file_sha256, read_json, write_json

WEIGHTS_FILE = "adapter_model.safetensors"
_CONFIG_FILE = "adapter_config.json"


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
    weights = folder / WEIGHTS_FILE
    tensors = {
        name: (one.half() if half else one).contiguous()
        for name, one in library.load_file(weights).items()
    }
    # Written again: the library's file is readable by its owner only.
    weights.unlink()
    weights.write_bytes(library.save(tensors, metadata={"format": "pt"}))
    return file_sha256(weights)
