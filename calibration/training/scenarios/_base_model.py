"""The base model with a fresh adapter on it, on the device asked for."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....guard.engine.model_folder import ModelFolder, quiet_loading
from ....guard.errors import DeviceError, ModelFolderError, optional_import
from ....guard.files import file_sha256, open_regular, read_json
from .._adapters import WEIGHTS_FILE
from ._batches import end_ids
from .settings import ScenarioTrainingSettings

_CHUNK = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class TrainableModel:
    """A causal LM of which only the adapter is trained.

    Attributes:
        model: peft's model, on its device.
        tokenizer: its tokenizer.
        end_ids: tokens that end an answer, the usual one first.
        window: tokens that prompt and reply may have together, None when not stated.
    """

    model: Any
    tokenizer: Any
    end_ids: tuple[int, ...]
    window: int | None


def base_weights(folder: Path) -> list[Path]:
    """The safetensors files of a model folder, in name order.

    Raises:
        ModelFolderError: no folder, no config, no safetensors weights, or a configuration
            that names code.
    """
    where = str(folder)
    if not folder.is_dir():
        raise ModelFolderError("there is no such folder", where=where, hint="check the path")
    if not (folder / "config.json").is_file():
        raise ModelFolderError(
            "has no config.json", where=where, hint="save it with save_pretrained"
        )
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelFolderError(
            "has no weights (*.safetensors)",
            where=where,
            hint="save the model with save_pretrained; pickled weights are not loaded",
        )
    ModelFolder(folder).require_sound(files)
    return files


def weights_sha256(files: list[Path]) -> str:
    """sha256 over the files in the order given, as one stream."""
    digest = hashlib.sha256()
    for path in files:
        with os.fdopen(open_regular(path, links=True), "rb") as stream:
            while block := stream.read(_CHUNK):
                digest.update(block)
    return digest.hexdigest()


def training_device(settings: ScenarioTrainingSettings) -> Any:
    """The torch device to train on.

    Raises:
        DeviceError: it is not there, or 4-bit weights are asked for without CUDA.
        MissingDependencyError: 4-bit weights are asked for without bitsandbytes.
    """
    torch = optional_import("torch")
    cuda = bool(torch.cuda.is_available())
    if settings.quantise:
        if not cuda or settings.device == "cpu":
            raise DeviceError(
                "4-bit weights (quantise) need a CUDA device"
                + (", and the device asked for is cpu" if cuda else ", and there is none here")
                + " — train without quantise, or on a machine with CUDA"
            )
        optional_import("bitsandbytes")
    if settings.device == "auto":
        return torch.device("cuda:0" if cuda else "cpu")
    try:
        device = torch.device(settings.device)
    except RuntimeError as error:
        raise DeviceError(
            f"{settings.device!r} names no device — use 'auto', 'cpu', 'cuda' or 'cuda:N'"
        ) from error
    if device.type not in {"cpu", "cuda"}:
        raise DeviceError(f"cannot train on {settings.device!r} — use 'auto', 'cpu' or 'cuda'")
    if device.type == "cuda" and (device.index or 0) >= (torch.cuda.device_count() if cuda else 0):
        raise DeviceError(f"device {settings.device!r} is not there — use device='cpu' or 'auto'")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def trainable_model(
    folder: Path, settings: ScenarioTrainingSettings, device: Any
) -> TrainableModel:
    """Load a base model and put a fresh LoRA adapter on it; random numbers come from torch.

    The frozen weights have the precision of the settings; the adapter is float32.

    Raises:
        ModelFolderError: the folder cannot be read as a causal LM with a tokenizer.
        DeviceError: the model does not fit on the device.
    """
    torch, transformers = optional_import("torch"), optional_import("transformers")
    peft = optional_import("peft")
    safe = {"local_files_only": True, "trust_remote_code": False}
    dtype = settings.dtype
    if dtype == "auto":
        wide = device.type == "cpu" or not torch.cuda.is_bf16_supported()
        dtype = "float32" if wide else "bfloat16"
    options: dict[str, Any] = {"dtype": getattr(torch, dtype)}
    if settings.quantise:
        options["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=options["dtype"],
        )
        options["device_map"] = {"": device}
    try:
        with quiet_loading():
            tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **safe)
            model: Any = transformers.AutoModelForCausalLM.from_pretrained(
                str(folder), use_safetensors=True, **options, **safe
            )
        if settings.quantise:
            model = peft.prepare_model_for_kbit_training(model)
        else:
            model = model.to(device)
    except torch.OutOfMemoryError as error:
        raise DeviceError(
            f"{folder} does not fit on {device} — use quantise or another device"
        ) from error
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError) as error:
        raise ModelFolderError(
            f"cannot be loaded as a causal language model ({type(error).__name__})",
            where=str(folder),
            hint="check that config, weights and tokenizer belong together",
        ) from error
    return TrainableModel(
        _with_adapter(model, settings), tokenizer, end_ids(model, tokenizer), _window(model.config)
    )


def _with_adapter(model: Any, settings: ScenarioTrainingSettings) -> Any:
    peft = optional_import("peft")
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules="all-linear",
    )
    with warnings.catch_warnings():
        # peft sets `fan_in_fan_out` itself where a model's layers are the other way round.
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FutureWarning)  # between the libraries
        grown = peft.get_peft_model(model, config)
    # Dropout stays off: a few epochs of a small adapter need none. Only 4-bit models train in
    # training mode, in which alone they save memory by computing activations twice.
    return grown.train() if settings.quantise else grown.eval()


def _window(config: Any) -> int | None:
    text_config = config.get_text_config() if hasattr(config, "get_text_config") else config
    for name in ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"):
        value = getattr(text_config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


# Says that the folder is complete, so it comes last.
TRAINING_FILE = "training.json"
SCHEMA = 1


def finished_training(folder: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `training.json` says when the folder holds the adapter of just this training.

    Args:
        folder: where the adapter would be written.
        identity: what makes a training this one; compared with the file's `identity`.

    Returns:
        The file's content; None when there is no such file, another training or other weights.
    """
    if not (folder / TRAINING_FILE).is_file() or not (folder / WEIGHTS_FILE).is_file():
        return None
    found = read_json(folder / TRAINING_FILE)
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return None
    same = found.get("identity") == json.loads(json.dumps(identity))
    whole = found.get("adapter_sha256") == file_sha256(folder / WEIGHTS_FILE)
    return found if same and whole else None
