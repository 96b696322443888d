"""LoRA adapters in peft's file format, added to a model's weights when it is loaded.

Merged weights cost nothing per text and need no peft at serving time; the sums are
peft's own: `W + (lora_alpha / r) · B·A`.

Source: Hu et al. 2021, LoRA: Low-Rank Adaptation of Large Language Models.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from .._errors import ModelFolderError
from .._optional_imports import optional_import
from ..files import read_json

ADAPTER_WEIGHTS = "adapter_model.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
_PREFIX = "base_model.model."
# What would change the sums, or add to them; each is off in a plain adapter.
_BEYOND_PLAIN = (
    "alpha_pattern",
    "fan_in_fan_out",
    "lora_bias",
    "modules_to_save",
    "rank_pattern",
    "trainable_token_indices",
    "use_dora",
    "use_qalora",
    "use_rslora",
)
_MEND = "write it with `knowgate tune relevance`, or with peft's save_pretrained"


def merge_adapter(model: Any, folder: Path) -> None:
    """Add the LoRA adapter in `folder` to the weights of a Hugging Face `model`, in place.

    Raises:
        ModelFolderError: no plain LoRA adapter, or one made for another model.
    """
    config = read_json(folder / ADAPTER_CONFIG)
    rank, scale = _rank_and_scale(config, folder)
    torch: Any = optional_import("torch")
    tensors = _tensors(folder / ADAPTER_WEIGHTS)
    names = sorted({name.rsplit(".lora_", 1)[0] for name in tensors})
    expected = {f"{name}.lora_{part}.weight" for name in names for part in "AB"}
    if not names or expected != set(tensors):
        raise ModelFolderError(
            "the weights are not those of a plain LoRA adapter", where=str(folder), mend=_MEND
        )
    sums: list[tuple[Any, Any]] = []
    # All are checked before the first is added: a refused adapter leaves the model as it was.
    for name in names:
        down, up = (tensors[f"{name}.lora_{part}.weight"].float() for part in "AB")
        weight = _weight(model, name.removeprefix(_PREFIX))
        shapes = None if weight is None else ((rank, weight.shape[-1]), (weight.shape[0], rank))
        if shapes != (tuple(down.shape), tuple(up.shape)) or weight.ndim != 2:
            raise ModelFolderError(
                f"the adapter's {name!r} does not fit this model",
                where=str(folder),
                mend="use it with the model it was made for",
            )
        added = scale * (up @ down)
        if not bool(torch.isfinite(added).all()):
            raise ModelFolderError(
                f"the adapter's {name!r} holds NaN or infinity", where=str(folder), mend=_MEND
            )
        sums.append((weight, added))
    with torch.no_grad():
        for weight, added in sums:
            weight.add_(added.to(weight.device, weight.dtype))


def _rank_and_scale(config: Any, folder: Path) -> tuple[int, float]:
    plain = isinstance(config, dict) and config.get("peft_type") == "LORA"
    if plain:
        plain = not any(config.get(name) for name in _BEYOND_PLAIN) and config.get("bias") == "none"
    rank, alpha = (config.get("r"), config.get("lora_alpha")) if plain else (None, None)
    if (
        not isinstance(rank, int)
        or rank < 1
        or not isinstance(alpha, int | float)
        or not math.isfinite(alpha)
    ):
        raise ModelFolderError(
            f"{ADAPTER_CONFIG} does not describe a plain LoRA adapter",
            where=str(folder),
            mend=_MEND,
        )
    return rank, float(alpha) / rank


def _tensors(path: Path) -> dict[str, Any]:
    library: Any = optional_import("safetensors.torch")
    try:
        found: dict[str, Any] = library.load_file(str(path))
    except FileNotFoundError:
        raise ModelFolderError("no such file", where=str(path), mend=_MEND) from None
    except Exception as error:  # noqa: BLE001 - safetensors has an error class of its own
        raise ModelFolderError(
            f"cannot be read as safetensors ({type(error).__name__})", where=str(path), mend=_MEND
        ) from None
    return found


def _weight(model: Any, name: str) -> Any:
    try:
        return model.get_submodule(name).weight
    except AttributeError:
        return None
