"""LoRA adapters in peft's files: what of their configuration counts, and what is rejected.

Only safetensors are read, and of the configuration only what a LoRA adapter needs: no field of it
can name code to import.

Source: Hu et al. 2021, LoRA: Low-Rank Adaptation of Large Language Models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, ModelFolderError
from ..model_files import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from .model_folder import KNOWN, json_fields

LORA_HINT = "write it with `knowgate tune`, or with peft's save_pretrained"
# Fields that change the sums of an adapter, or where they are added.
SCALED: Sequence[str] = KNOWN["lora"]["scaled"]
# Fields that decide the merged weights; others have no effect on them or are rejected.
_TAKEN = (*KNOWN["lora"]["plain"], *SCALED)
# Other starts keep a part of the base model's weights in the adapter.
_PLAIN = {
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "init_lora_weights": (True, False, None, "gaussian", "orthogonal"),
}
_LARGEST_ALPHA = 1 << 16
# Regular expressions whose matching takes time in a high power of a module name's length.
_SLOW = re.compile(r"\)[*+{]|(?:[*+{][^*+{]*){7}")


def lora_settings(folder: Path, beyond: Sequence[str] = ()) -> dict[str, Any]:
    """Check the LoRA adapter in `folder`, without reading its weights.

    Args:
        folder: as peft writes it.
        beyond: fields that the adapter must not set, beside those that no LoRA adapter sets.

    Returns:
        The fields of its configuration that decide the merged weights, `r` and `lora_alpha`
        among them.

    Raises:
        ModelFolderError: no LoRA adapter with safetensors weights, or one that changes more than
            a LoRA adapter does.
    """
    config, weights = ((folder / name).is_file() for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS))
    pickled = any((folder / name).is_file() for name in ("adapter_model.bin", "adapter.pt"))
    a_model = (folder / "config.json").is_file()
    only_pickled = "has only pickled weights, which are not loaded"
    for fault, what, hint in (
        (not folder.is_dir(), "there is no such adapter folder", "check the path"),
        (a_model and not config, "holds a model, not an adapter", LORA_HINT),
        (not config, f"has no {ADAPTER_CONFIG}", LORA_HINT),
        (pickled and not weights, only_pickled, "convert them to safetensors"),
        (not weights, f"has no weights ({ADAPTER_WEIGHTS})", LORA_HINT),
    ):
        if fault:
            raise ModelFolderError(what, where=str(folder), hint=hint)
    fields = read_adapter_file(folder / ADAPTER_CONFIG)
    where = str(folder / ADAPTER_CONFIG)
    if unlike := ", ".join(sorted(_beyond(fields, beyond))):
        what = f"does not describe a plain LoRA adapter ({unlike})"
        hint = f"merge it into its base model with peft and load that, or {LORA_HINT}"
        raise ModelFolderError(what, where=where, hint=hint)
    if any(isinstance(one, str) and _SLOW.search(one) for one in _patterns(fields)):
        what, hint = "a pattern of module names is too complex", "list the modules by name"
        raise ModelFolderError(what, where=where, hint=hint)
    return {name: fields[name] for name in _TAKEN if fields.get(name) is not None}


def read_adapter_file(path: Path) -> dict[str, Any]:
    """Read a JSON file of an adapter, as far as it is an object.

    Raises:
        ModelFolderError: it is not JSON.
    """
    try:
        return json_fields(path)
    except InputError as error:
        raise ModelFolderError(error.what, where=error.where, hint=LORA_HINT) from None


def _beyond(fields: dict[str, Any], beyond: Sequence[str]) -> set[str]:
    """The fields with which an adapter is no plain one."""
    found = {name for name in (*KNOWN["lora"]["beyond"], *beyond) if fields.get(name)}
    found |= {name for name, plain in _PLAIN.items() if fields.get(name) not in plain}
    rank = fields.get("r")
    if type(rank) is not int or rank < 1:
        found.add("r")
    for alpha in (fields.get("lora_alpha"), *_mapping(fields, "alpha_pattern").values()):
        if type(alpha) not in (int, float) or not 0 < alpha <= _LARGEST_ALPHA:
            found.add("lora_alpha")
    return found


def _patterns(fields: dict[str, Any]) -> list[Any]:
    """What is matched with the names of modules."""
    layers = fields.get("layers_pattern")
    found = layers if isinstance(layers, list) else [layers]
    mappings = (_mapping(fields, f"{name}_pattern") for name in ("alpha", "rank"))
    keys = [key for mapping in mappings for key in mapping]
    return [*found, *keys, fields.get("target_modules"), fields.get("exclude_modules")]


def _mapping(fields: dict[str, Any], name: str) -> dict[str, Any]:
    found = fields.get(name)
    return found if isinstance(found, dict) else {}
