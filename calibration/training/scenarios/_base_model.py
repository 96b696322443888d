"""The base model with a fresh adapter on it, on the device asked for."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....guard.engine.causal_model import choose_device, context_window, end_ids, load_causal
from ....guard.engine.model_folder import ModelFolder
from ....guard.errors import DeviceError, optional_import
from ....guard.files import file_sha256, read_json
from .._adapters import WEIGHTS_FILE
from .settings import ScenarioTrainingSettings


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


def training_device(settings: ScenarioTrainingSettings) -> Any:
    """The torch device to train on.

    Raises:
        DeviceError: it is not there, or 4-bit weights are asked for without CUDA.
        MissingDependencyError: 4-bit weights are asked for without bitsandbytes.
    """
    if settings.quantise:
        cuda = bool(optional_import("torch").cuda.is_available())
        if not cuda or settings.device == "cpu":
            raise DeviceError(
                "4-bit weights (quantise) need a CUDA device"
                + (", and the device asked for is cpu" if cuda else ", and there is none here")
                + " — train without quantise, or on a machine with CUDA"
            )
        optional_import("bitsandbytes")
    device = choose_device(settings.device)
    if device.type not in {"cpu", "cuda"}:
        raise DeviceError(f"cannot train on {settings.device!r} — use 'auto', 'cpu' or 'cuda'")
    return device


def trainable_model(
    folder: Path, settings: ScenarioTrainingSettings, device: Any
) -> TrainableModel:
    """Load a base model and put a fresh LoRA adapter on it; random numbers come from torch.

    The frozen weights have the precision of the settings; the adapter is float32.

    Raises:
        ModelFolderError: the folder cannot be read as a causal LM with a tokenizer.
        DeviceError: the model does not fit on the device.
    """
    torch = optional_import("torch")
    wide = device.type == "cpu" or not torch.cuda.is_bf16_supported()
    named = ("float32" if wide else "bfloat16") if settings.dtype == "auto" else settings.dtype
    dtype = getattr(torch, named)
    options: dict[str, Any] = {}
    if settings.quantise:
        quantised = optional_import("transformers").BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        )
        options = {"quantization_config": quantised, "device_map": {"": device}}
    model, tokenizer = load_causal(folder, dtype, device, **options)
    if settings.quantise:
        peft = optional_import("peft")
        hint = "check that config, weights and tokenizer belong together"
        try:
            with ModelFolder(folder).reading("cannot be prepared for training in 4 bits", hint):
                model = peft.prepare_model_for_kbit_training(model)
        except torch.OutOfMemoryError as error:
            raise DeviceError(f"{folder} does not fit on {device} — use another device") from error
    ends, window = end_ids(model, tokenizer), context_window(model.config)
    return TrainableModel(_with_adapter(model, settings), tokenizer, ends, window)


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
