"""Causal language models in folders: what is checked before and while one is loaded."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DeviceError, ModelFolderError, optional_import
from ..files import open_regular
from .model_folder import reading, require_all_tensors, require_length, require_sound

if TYPE_CHECKING:
    import torch

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
_PICKLED_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_ONLY_PICKLED = "has only pickled weights, which are not loaded"


def choose_device(asked: str) -> torch.device:
    """Return the device that a name stands for.

    Args:
        asked: `auto` (the first CUDA device, else the CPU) or a name as torch writes it.

    Raises:
        DeviceError: there is no such device.
    """
    library = optional_import("torch")
    name = "cuda:0" if asked == "cuda" else asked
    if asked == "auto":
        name = "cuda:0" if library.cuda.is_available() else "cpu"
    missing = f"device {name!r} is not there — use 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'"
    try:
        device: torch.device = library.device(name)
        library.empty(0, device=device)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        raise DeviceError(missing) from error
    if device.type not in {"cpu", "cuda", "mps"}:
        raise DeviceError(missing)
    return device


def require_causal(folder: Path) -> list[Path]:
    """Return the weights of a model folder that is whole and names no code.

    Raises:
        ModelFolderError: it is not there, lacks a file, or its files do not fit each other.
    """
    weights = sorted(folder.glob("*.safetensors"))
    pickled = any(next(folder.glob(pattern), None) for pattern in _PICKLED_WEIGHTS)
    files = ("config.json", "adapter_config.json")
    config, adapter = ((folder / name).is_file() for name in files)
    tokenizer = any((folder / name).is_file() for name in _TOKENIZER_FILES)
    save = "save it with save_pretrained"
    both = "save the tokenizer into the same folder with save_pretrained"
    base = "give its base model, and this folder as adapter"
    for fault, what, hint in (
        (not folder.is_dir(), "there is no such folder", "check the path"),
        (adapter and not config, "holds an adapter, not a model", base),
        (not config, "has no config.json", save),
        (pickled and not weights, _ONLY_PICKLED, "convert them to safetensors"),
        (not weights, "has no weights (*.safetensors)", save),
        (not tokenizer, "has no tokenizer", both),
    ):
        if fault:
            raise ModelFolderError(what, where=str(folder), hint=hint)
    require_sound(folder, weights)
    return weights


def weights_sha256(files: list[Path]) -> str:
    """SHA-256 of the contents of all weights, in the order given."""
    digest = hashlib.sha256()
    for path in files:
        with os.fdopen(open_regular(path, links=True), "rb") as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


def load_causal(
    folder: Path, dtype: torch.dtype | str, device: torch.device, **options: Any
) -> tuple[Any, Any]:
    """Load a model and its tokenizer; no code of the folder runs.

    Args:
        folder: that `require_causal` accepts.
        dtype: of torch, or `auto` for that of the folder.
        device: where the model goes, unless options place it.
        options: further ones of `from_pretrained`, with a `device_map`.

    Raises:
        ModelFolderError: it cannot be loaded, or tensors are missing.
        DeviceError: the device has too little memory.
    """
    library = optional_import("torch")
    transformers = optional_import("transformers")
    safe = {"local_files_only": True, "trust_remote_code": False}
    with reading(folder, "the tokenizer cannot be loaded", "save it again with save_pretrained"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **safe)
    require_length(folder, tokenizer.model_max_length)
    # Tensors that are missing are drawn at random before they are found missing.
    try:
        with (
            reading(
                folder,
                "the weights cannot be loaded as a causal language model",
                "check that config.json and the weights belong together",
            ),
            library.random.fork_rng(devices=[]),
        ):
            model, report = transformers.AutoModelForCausalLM.from_pretrained(
                str(folder),
                dtype=dtype,
                use_safetensors=True,
                output_loading_info=True,
                **options,
                **safe,
            )
        require_all_tensors(folder, report)
        return (model if options else model.to(device)).eval(), tokenizer
    except library.OutOfMemoryError as error:
        what = f"{folder} does not fit on {device} — use a smaller dtype or another device"
        raise DeviceError(what) from error


def context_window(config: Any) -> int | None:
    """How many tokens a model reads at most; None where its configuration does not say."""
    text_config = config.get_text_config() if hasattr(config, "get_text_config") else config
    names = ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx")
    values = (getattr(text_config, name, None) for name in names)
    return next((one for one in values if isinstance(one, int) and one > 0), None)


def end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Every token that ends an answer, the usual one first.

    Args:
        model: whose generation settings come first.
        tokenizer: whose end token comes first among several; None for none.
    """
    found: dict[int, None] = {}
    own = getattr(tokenizer, "eos_token_id", None)
    for holder in (getattr(model, "generation_config", None), model.config, tokenizer):
        value = getattr(holder, "eos_token_id", None)
        listed = [value] if isinstance(value, int) else list(value or ())
        for token in sorted(listed, key=lambda token: token != own):
            found.setdefault(int(token))
    return tuple(found)
