"""Load a model and its tokenizer from a folder or by hub name, after checks.

Only safetensors weights are read, and no code from the folder is ever run.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...guard.engine.model_folder import ModelFolder
from ...guard.errors import DeviceError, ModelFolderError, optional_import, require_extra
from ...guard.files import open_regular, read_json
from ._lora import AdapterFolder, check_adapter, merge_adapter

if TYPE_CHECKING:
    import torch


_DTYPES = ("bfloat16", "float16", "float32", "float64")


def choose_device(asked: str) -> torch.device:
    """Return the torch device for `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.

    `auto` is the first CUDA device, or the CPU where there is none.

    Raises:
        DeviceError: the device is not available, or its name is unknown.
    """
    import torch

    if asked == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device("cuda:0" if asked == "cuda" else asked)
        torch.empty(0, device=device)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        raise DeviceError(_no_device(asked)) from error
    if device.type not in {"cpu", "cuda", "mps"}:
        raise DeviceError(_no_device(asked))
    return device


def _no_device(asked: str) -> str:
    name = "cuda:0" if asked == "cuda" else asked
    return f"device {name!r} is not there — use 'auto', 'cpu', 'cuda', 'cuda:N' or 'mps'"


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


_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
_PICKLED_WEIGHTS = ("*.bin", "*.pt", "*.pth", "*.ckpt")
# What a download may fetch: weights, settings and tokenizer files, no code.
_WANTED = ["*.safetensors", "*.json", "*.txt", "*.model", "*.jinja"]
_CHUNK = 1 << 22
# Parts of a configuration that change no answer, or that fingerprints hold apart.
_VOLATILE = frozenset(
    {"_name_or_path", "architectures", "dtype", "torch_dtype", "transformers_version", "use_cache"}
)


def find_folder(path_or_name: str | Path, *, local_files_only: bool) -> Path:
    """Return the folder of a model, downloaded if need be.

    Args:
        path_or_name: a folder, or a hub name such as `org/model`.
        local_files_only: look for a hub name in the local cache only.

    Raises:
        ModelFolderError: there is no such folder and no such model.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    folder = Path(path_or_name)
    if folder.is_dir():
        return folder
    name = str(path_or_name)
    if folder.exists():
        raise ModelFolderError("is a file", where=name, hint="give the folder that holds it")
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise ModelFolderError("there is no such folder", where=name, hint="check the path")
    try:
        return Path(
            snapshot_download(name, local_files_only=local_files_only, allow_patterns=_WANTED)
        )
    except (OSError, ValueError, HfHubHTTPError) as error:
        hint = (
            "give a folder, or first download the model with `hf download NAME`"
            if local_files_only
            else "check the name and the connection"
        )
        raise ModelFolderError(
            "there is no such folder, and no such model could be loaded", where=name, hint=hint
        ) from error


def check_folder(folder: Path) -> list[Path]:
    """Check that a model folder is complete; returns its weight files in name order.

    Raises:
        ModelFolderError: without config, safetensors weights or tokenizer, or with a
            configuration that names code.
    """
    where = str(folder)
    weights = sorted(folder.glob("*.safetensors"))
    if not (folder / "config.json").is_file():
        if (folder / "adapter_config.json").is_file():
            raise ModelFolderError(
                "holds an adapter, not a model",
                where=where,
                hint="give its base model, and this folder as adapter",
            )
        raise ModelFolderError(
            "has no config.json", where=where, hint="save it with save_pretrained"
        )
    if not weights:
        if any(next(folder.glob(pattern), None) for pattern in _PICKLED_WEIGHTS):
            raise ModelFolderError(
                "has only pickled weights, which are not loaded",
                where=where,
                hint="convert them to safetensors",
            )
        raise ModelFolderError(
            "has no weights (*.safetensors)",
            where=where,
            hint="save the model with save_pretrained",
        )
    ModelFolder(folder).require_sound(weights)
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise ModelFolderError(
            "has no tokenizer",
            where=where,
            hint="save the tokenizer into the same folder with save_pretrained",
        )
    return weights


def weights_sha256(files: list[Path]) -> str:
    """sha256 over the weight files in the order given, as one stream.

    For a single file this is what `sha256sum` prints.
    """
    digest = hashlib.sha256()
    for path in files:
        with os.fdopen(open_regular(path, links=True), "rb") as stream:
            while block := stream.read(_CHUNK):
                digest.update(block)
    return digest.hexdigest()


def load_model(
    folder: Path, device: torch.device, dtype: torch.dtype | str, device_map: str | None = None
) -> tuple[Any, Any]:
    """Load the causal LM in `folder` in evaluation mode, with its tokenizer.

    Raises:
        MissingDependencyError: accelerate, where layers are spread over devices.
        ModelFolderError: the files cannot be read as a causal LM with a tokenizer, or
            some weights are missing (which would otherwise be filled at random).
        DeviceError: the model does not fit on the device.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where = str(folder)
    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    spread: dict[str, Any] = {}
    if device_map is not None:
        optional_import("accelerate")
        spread = {"device_map": device_map}
    checked = ModelFolder(folder)
    with checked.reading("the tokenizer cannot be loaded", "save it again with save_pretrained"):
        tokenizer = AutoTokenizer.from_pretrained(where, **safe)
    checked.require_length(tokenizer.model_max_length)
    # Missing tensors are drawn at random by transformers; the fork keeps the
    # caller's random state as it was.
    with (
        checked.reading(
            "the weights cannot be loaded as a causal language model",
            "check that config.json and the weights belong together",
        ),
        torch.random.fork_rng(devices=[]),
    ):
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            where, dtype=dtype, use_safetensors=True, output_loading_info=True, **spread, **safe
        )
    model, report = loaded
    checked.require_all_tensors(report)
    if spread:
        # The layers are where they belong.
        return model.eval(), tokenizer
    try:
        return model.to(device).eval(), tokenizer
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            f"{where} does not fit on {device} — use a smaller dtype or another device"
        ) from error


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
    text = json.dumps([_without_volatile(part) for part in parts], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


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
    text = json.dumps(rules, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class ModelIdentity:
    """Hashes of a model, each computed on first use.

    Args:
        model: hashed itself where it was not loaded from files.
        tokenizer: its tokenizer.
        weight_files: files of the weights, in name order; None for a model in memory.
        known_sha256: their sha256, if it is known already.
        adapter: merged into the weights; None without one.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        weight_files: list[Path] | None,
        known_sha256: str | None,
        *,
        adapter: AdapterFolder | None = None,
    ) -> None:
        # Hashed now: the folder may hold another adapter later.
        self._adapter = None if adapter is None else adapter.sha256()
        self._model, self._tokenizer, self._files = model, tokenizer, weight_files
        self._weights, self._rules = known_sha256, ""
        folder = weight_files[0].parent if weight_files else None
        self._configuration = configuration_sha256(model, folder)
        self._lock = threading.Lock()

    def weights_sha256(self) -> str:
        """sha256 of the weight files, or of the tensors where there are no files."""
        with self._lock:
            if self._weights is None:
                self._weights = (
                    weights_sha256(self._files) if self._files else state_sha256(self._model)
                )
            return self._weights

    def fingerprint(self, settings: dict[str, Any]) -> str:
        """Text that changes with weights, configuration, adapter, tokenizer or `settings`."""
        weights = self.weights_sha256()
        with self._lock:
            self._rules = self._rules or tokenizer_sha256(self._tokenizer)
        parts = {
            "weights": weights,
            "configuration": self._configuration,
            "tokenizer": self._rules,
            **settings,
        }
        if self._adapter is not None:
            parts["adapter"] = self._adapter
        text = json.dumps(parts, sort_keys=True)
        return f"huggingface:{hashlib.sha256(text.encode()).hexdigest()}"


def context_window(config: Any) -> int | None:
    """Tokens that prompt and answer may have together, None when the model states none."""
    text_config = config.get_text_config() if hasattr(config, "get_text_config") else config
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"):
        value = getattr(text_config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def end_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end an answer, by the generation settings, the config or the tokenizer."""
    found: set[int] = set()
    holders = (getattr(model, "generation_config", None), model.config, tokenizer)
    for holder in holders:
        value = getattr(holder, "eos_token_id", None)
        if isinstance(value, int):
            found.add(value)
        elif value is not None:
            found.update(int(token) for token in value)
    return frozenset(found)


def open_model(
    path_or_name: str | Path,
    device: str,
    dtype: str,
    adapter: str | Path | None,
    *,
    sha256: str | None,
    local_files_only: bool,
    device_map: str | None,
) -> tuple[Any, Any, ModelIdentity]:
    """Load model, tokenizer and identity, after all checks.

    Arguments and errors are those of `HuggingFaceLM`.
    """
    require_extra("hf")
    chosen_device = choose_device(device)
    chosen_dtype = choose_dtype(dtype, chosen_device)
    folder = find_folder(path_or_name, local_files_only=local_files_only)
    files = check_folder(folder)
    checked = None if adapter is None else check_adapter(Path(adapter))
    found = None if sha256 is None else weights_sha256(files)
    if sha256 is not None and found != sha256.strip().lower():
        raise ModelFolderError(
            f"the weights have sha256 {found}, not the expected {sha256}",
            where=str(folder),
            hint="download them again, or correct the expected value",
        )
    model, tokenizer = load_model(folder, chosen_device, chosen_dtype, device_map)
    identity = ModelIdentity(model, tokenizer, files, found, adapter=checked)
    if checked is not None:
        model = merge_adapter(model, checked, identity.weights_sha256)
    return model, tokenizer, identity
