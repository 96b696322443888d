"""LoRA adapters in peft's file format: begun on a base model, stored while trained, written."""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...guard.engine.causal_model import choose_device, load_causal
from ...guard.engine.model_folder import ModelFolder
from ...guard.errors import DeviceError, InputError, optional_import
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


def training_device(asked: str, *, quantise: bool) -> Any:
    """The torch device to train on.

    Raises:
        DeviceError: it is not there, or 4-bit weights are asked for without CUDA.
        MissingDependencyError: 4-bit weights are asked for without bitsandbytes.
    """
    if quantise:
        cuda = bool(optional_import("torch").cuda.is_available())
        if not cuda or asked == "cpu":
            raise DeviceError(
                "4-bit weights (quantise) need a CUDA device"
                + (", and the device asked for is cpu" if cuda else ", and there is none here")
                + " — train without quantise, or on a machine with CUDA"
            )
        optional_import("bitsandbytes")
    device = choose_device(asked)
    if device.type not in {"cpu", "cuda"}:
        raise DeviceError(f"cannot train on {asked!r} — use 'auto', 'cpu' or 'cuda'")
    return device


def trainable_model(
    folder: Path, device: Any, *, dtype: str, quantise: bool, rank: int, alpha: int
) -> tuple[Any, Any]:
    """Load a base model, put a fresh LoRA adapter on it, and return it with its tokenizer.

    Only the adapter is trained, in float32; the frozen weights have the precision of
    `dtype`, or 4 bits. Random numbers come from torch.

    Raises:
        ModelFolderError: the folder cannot be read as a causal LM with a tokenizer.
        DeviceError: the model does not fit on the device.
    """
    torch, peft = optional_import("torch"), optional_import("peft")
    wide = device.type == "cpu" or not torch.cuda.is_bf16_supported()
    named = ("float32" if wide else "bfloat16") if dtype == "auto" else dtype
    precision = getattr(torch, named)
    options: dict[str, Any] = {}
    if quantise:
        quantised = optional_import("transformers").BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=precision,
        )
        options = {"quantization_config": quantised, "device_map": {"": device}}
    model, tokenizer = load_causal(folder, precision, device, **options)
    if quantise:
        hint = "check that config, weights and tokenizer belong together"
        try:
            with ModelFolder(folder).reading("cannot be prepared for training in 4 bits", hint):
                model = peft.prepare_model_for_kbit_training(model)
        except torch.OutOfMemoryError as error:
            raise DeviceError(f"{folder} does not fit on {device} — use another device") from error
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
    # Dropout stays off: a few epochs of a small adapter need none. Only 4-bit models train in
    # training mode, in which alone they save memory by computing activations twice.
    return (grown.train() if quantise else grown.eval()), tokenizer


# Between two checkpoints of a training.
SECONDS = 60.0
_STATE = "state.json"
_MOMENTS = ("exp_avg", "exp_avg_sq")
# A step's summed loss, and what it was divided by.
History = list[tuple[float, float]]


class Checkpoint:
    """Stores weights and optimiser of a training about once a minute, beside its folder.

    The folder `.NAME.unfinished` is removed when the training is finished, and read when the same
    training is started again after it was killed.

    Args:
        out: the folder that the training writes.
        identity: of the training; what another one stored is left alone.
    """

    def __init__(self, out: Path, identity: Mapping[str, Any]) -> None:
        self._folder = out.with_name(f".{out.name}.unfinished")
        self._identity = json.loads(json.dumps(identity))
        self._saved_at = time.monotonic()

    def restore(self, trained: Sequence[Any], optimiser: Any) -> History:
        """Load what a killed training stored; return its steps, none if it stored nothing."""
        try:
            state = read_json(self._folder / _STATE)
            path = self._folder / state["weights"]
            if state["identity"] != self._identity or file_sha256(path) != state["sha256"]:
                return []
        except (InputError, OSError, KeyError, TypeError):
            return []
        torch = optional_import("torch")
        tensors = optional_import("safetensors.torch").load_file(path)
        history = [(float(loss), float(weight)) for loss, weight in state["history"]]
        slots = {}
        for number, one in enumerate(trained):
            one.data.copy_(tensors[f"{number}.weight"])
            slots[number] = {name: tensors[f"{number}.{name}"] for name in _MOMENTS}
            slots[number]["step"] = torch.tensor(float(len(history)))
        groups = optimiser.state_dict()["param_groups"]
        optimiser.load_state_dict({"state": slots, "param_groups": groups})
        return history

    def save_when_due(self, trained: Sequence[Any], optimiser: Any, history: History) -> None:
        """Store the state if the last time was a minute ago."""
        if time.monotonic() - self._saved_at < SECONDS:
            return
        tensors = {}
        for number, one in enumerate(trained):
            slot = optimiser.state[one]
            tensors[f"{number}.weight"] = one.detach()
            tensors |= {f"{number}.{name}": slot[name] for name in _MOMENTS}
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"step_{len(history)}.safetensors"
        kept = {name: one.contiguous().cpu() for name, one in tensors.items()}
        path.write_bytes(optional_import("safetensors.torch").save(kept))
        state = {"identity": self._identity, "history": history, "weights": path.name}
        write_json(self._folder / _STATE, {**state, "sha256": file_sha256(path)})
        for other in self._folder.glob("step_*.safetensors"):
            if other != path:
                other.unlink()
        self._saved_at = time.monotonic()

    def remove(self) -> None:
        """Remove the state: the training is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)
