"""A LoRA adapter from peft's files, merged into the model that it was trained on.

Merged weights cost nothing per token, and every way of asking the model stays the same.
Only safetensors are read, and of the configuration only what a LoRA adapter needs: no
field of it can name code to import.

Source: Hu et al. 2021, LoRA: Low-Rank Adaptation of Large Language Models.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...guard.errors import InputError, ModelFolderError, optional_import
from ...guard.files import read_bytes, read_json

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
# Written by knowgate's own training: names the base model by its weights.
TRAINING_FILE = "training.json"

_HINT = "write it with `knowgate tune scenarios`, or with peft's save_pretrained"
# Fields that decide the merged weights; others have no effect here or are rejected below.
_TAKEN = (
    "r",
    "lora_alpha",
    "target_modules",
    "exclude_modules",
    "fan_in_fan_out",
    "use_rslora",
    "use_dora",
    "rank_pattern",
    "alpha_pattern",
    "layers_to_transform",
    "layers_pattern",
)
# Fields that change the model in other ways than by adding low-rank matrices.
_REJECTED = (
    "alora_invocation_tokens",
    "arrow_config",
    "layer_replication",
    "lora_bias",
    "megatron_config",
    "modules_to_save",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_qalora",
)
_LARGEST_ALPHA = 1 << 16
# Regular expressions whose matching takes time in a high power of a module name's length.
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REPEATS = re.compile(r"[*+{]")
_MOST_REPEATS = 6
# Other starts keep a part of the base model's weights in the adapter.
_PLAIN_STARTS = (True, False, None, "gaussian", "orthogonal")


@dataclass(frozen=True, slots=True)
class AdapterFolder:
    """A folder with a LoRA adapter that can be read.

    Attributes:
        path: the folder.
        config: the fields of its configuration that decide the merged weights.
        base_sha256: of the base model's weights, None where the folder does not say.
    """

    path: Path
    config: dict[str, Any]
    base_sha256: str | None

    def sha256(self) -> str:
        """Identifies the adapter: the bytes of its configuration and its weights."""
        digest = hashlib.sha256()
        for name in (CONFIG_FILE, WEIGHTS_FILE):
            content = read_bytes(self.path / name)
            digest.update(f"{name}:{len(content)};".encode() + content)
        return digest.hexdigest()


def check_adapter(folder: Path) -> AdapterFolder:
    """Check the adapter in `folder`, without reading its weights.

    Raises:
        ModelFolderError: no LoRA adapter with safetensors weights, or one that changes
            more than a LoRA adapter does.
    """
    where = str(folder)
    if not folder.is_dir():
        raise ModelFolderError(
            "there is no such adapter folder", where=where, hint="check the path"
        )
    if not (folder / CONFIG_FILE).is_file():
        what = "holds a model, not an adapter" if (folder / "config.json").is_file() else None
        raise ModelFolderError(what or f"has no {CONFIG_FILE}", where=where, hint=_HINT)
    if not (folder / WEIGHTS_FILE).is_file():
        pickled = any((folder / name).is_file() for name in ("adapter_model.bin", "adapter.pt"))
        raise ModelFolderError(
            "has only pickled weights, which are not loaded"
            if pickled
            else f"has no weights ({WEIGHTS_FILE})",
            where=where,
            hint="convert them to safetensors" if pickled else _HINT,
        )
    return AdapterFolder(folder, _checked_config(folder), _base_sha256(folder))


def _read(path: Path) -> Any:
    try:
        return read_json(path)
    except InputError as error:
        raise ModelFolderError(error.what, where=error.where, hint=_HINT) from None


def _checked_config(folder: Path) -> dict[str, Any]:
    where = str(folder / CONFIG_FILE)
    config = _read(folder / CONFIG_FILE)
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise ModelFolderError("does not describe a LoRA adapter", where=where, hint=_HINT)
    beyond = sorted(name for name in _REJECTED if config.get(name))
    if config.get("bias", "none") != "none":
        beyond.append("bias")
    if config.get("init_lora_weights", True) not in _PLAIN_STARTS:
        beyond.append("init_lora_weights")
    if beyond:
        raise ModelFolderError(
            f"asks for more than a LoRA adapter ({', '.join(beyond)})",
            where=where,
            hint="merge it into its base model with peft and load that",
        )
    taken = {name: config[name] for name in _TAKEN if config.get(name) is not None}
    _check_values(taken, where)
    return taken


def _check_values(config: dict[str, Any], where: str) -> None:
    """Reject numbers that no adapter has, and patterns that could be matched for hours."""
    alphas = [config.get("lora_alpha", 1), *_of_mapping(config, "alpha_pattern").values()]
    for alpha in alphas:
        if type(alpha) not in (int, float) or not 0 < alpha <= _LARGEST_ALPHA:
            raise ModelFolderError("lora_alpha is out of range", where=where, hint=_HINT)
    patterns = [config.get(name) for name in ("target_modules", "exclude_modules")]
    patterns += [*_of_mapping(config, "alpha_pattern"), *_of_mapping(config, "rank_pattern")]
    layers = config.get("layers_pattern")
    patterns += layers if isinstance(layers, list) else [layers]
    for pattern in patterns:
        if isinstance(pattern, str) and (
            _REPEATED_GROUP.search(pattern) or len(_REPEATS.findall(pattern)) > _MOST_REPEATS
        ):
            raise ModelFolderError(
                "a pattern of module names is too complex",
                where=where,
                hint="list the modules by name",
            )


def _of_mapping(config: dict[str, Any], name: str) -> dict[str, Any]:
    found = config.get(name, {})
    return found if isinstance(found, dict) else {}


def _base_sha256(folder: Path) -> str | None:
    path = folder / TRAINING_FILE
    if not path.is_file():
        return None
    training = _read(path)
    identity = training.get("identity") if isinstance(training, dict) else None
    stated = identity.get("base_sha256") if isinstance(identity, dict) else None
    return stated if isinstance(stated, str) else None


def merge_adapter(model: Any, adapter: AdapterFolder, weights_sha256: Callable[[], str]) -> Any:
    """Add the adapter's products to the weights of `model`, and return it.

    Args:
        model: the base model; its weights change.
        adapter: as `check_adapter` returned it.
        weights_sha256: returns that of the base model's files; called only where the
            adapter names its base model.

    Raises:
        ModelFolderError: weights that cannot be read, are not finite, or belong to
            another model.
    """
    where, hint = str(adapter.path), "use it with the model that it was trained on"
    if adapter.base_sha256 is not None and adapter.base_sha256 != weights_sha256():
        raise ModelFolderError(
            f"was trained on other weights (sha256 {adapter.base_sha256[:12]}…)",
            where=where,
            hint=hint,
        )
    torch, peft = optional_import("torch"), optional_import("peft")
    tensors = _tensors(adapter.path / WEIGHTS_FILE)
    _reject_tied(model, tensors, where)
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            config = peft.LoraConfig(**adapter.config, lora_dropout=0.0, inference_mode=True)
            grown = peft.get_peft_model(model, config)
            result = peft.set_peft_model_state_dict(grown, tensors)
    except Exception as error:  # peft raises what its layers raise
        raise ModelFolderError(
            f"the adapter does not fit this model ({type(error).__name__})", where=where, hint=hint
        ) from error
    missing = sorted(name for name in result.missing_keys if ".lora_" in name)
    if missing or result.unexpected_keys:
        name = [*missing, *sorted(result.unexpected_keys)][0]
        raise ModelFolderError(
            f"the adapter's weights and its configuration differ, e.g. in {name}",
            where=where,
            hint=_HINT,
        )
    return grown.merge_and_unload().eval()


def _tensors(path: Path) -> dict[str, Any]:
    torch, library = optional_import("torch"), optional_import("safetensors.torch")
    try:
        tensors: dict[str, Any] = library.load_file(str(path))
    except Exception as error:  # noqa: BLE001 - safetensors has an error class of its own
        raise ModelFolderError(
            f"cannot be read as safetensors ({type(error).__name__})", where=str(path), hint=_HINT
        ) from None
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ModelFolderError(f"{name} holds NaN or infinity", where=str(path), hint=_HINT)
    if not tensors:
        raise ModelFolderError("holds no weights", where=str(path), hint=_HINT)
    return tensors


def _reject_tied(model: Any, tensors: dict[str, Any], where: str) -> None:
    """Reject an adapter of an output layer that shares its weights with the embeddings."""
    output = model.get_output_embeddings()
    if output is None or output.weight is not model.get_input_embeddings().weight:
        return
    shared = {
        name
        for name, module in model.named_modules()
        if module is output or module is model.get_input_embeddings()
    }
    if any(f".{name}." in key for key in tensors for name in shared):
        raise ModelFolderError(
            "the adapter changes the output layer, which this model shares with its embeddings",
            where=where,
            hint="train it on the other linear layers",
        )
