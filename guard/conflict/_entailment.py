"""Entailment by a cross-encoder: any sequence classifier trained on NLI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._errors import DeviceError, InputError, ModelFolderError
from .._optional_imports import optional_import
from .._passages import clean_text
from .._quiet_loading import quiet_loading
from ..files import file_sha256

_WEIGHTS = "model.safetensors"


class CrossEncoderEntailment:
    """Whether one text follows from another, by a Hugging Face sequence classifier.

    Serves `SameMeaning(nli=…)` and every other place that asks for `entails`.

    Args:
        folder: a model on disk with `model.safetensors` and its tokenizer; one of its
            labels must be called entailment (as in models trained on MNLI).
        device: `cpu`, `cuda`, `cuda:N`; None picks CUDA where there is one.
        threshold: probability in [0, 1] from which `entails` says yes.
        max_length: tokens of both texts together; what lies beyond is cut.

    Raises:
        ModelFolderError: no such folder, no safetensors weights, or no such label.
        DeviceError: the device is not there.
        MissingDependencyError: transformers is not installed.
        InputError: the threshold is off its scale.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        device: str | None = None,
        threshold: float = 0.5,
        max_length: int = 512,
    ) -> None:
        if not 0.0 <= threshold <= 1.0:
            raise InputError("must be a number from 0 to 1", where="threshold")
        path = Path(folder)
        if not (path / _WEIGHTS).is_file():
            raise ModelFolderError(
                f"no {_WEIGHTS} there", where=str(path), mend="name the folder of an NLI model"
            )
        self._torch: Any = optional_import("torch")
        self._device = _device(self._torch, device)
        self._tokenizer, self._model = _load(path)
        self._model.to(self._device)
        self._label = _entailment_label(self._model.config.id2label, path)
        self._threshold = threshold
        self._max_length = max_length
        self.fingerprint = f"cross_encoder:{file_sha256(path / _WEIGHTS)}"

    def entails(self, premise: str, hypothesis: str) -> bool:
        """Whether `hypothesis` follows from `premise`."""
        return self.probability(premise, hypothesis) >= self._threshold

    def probability(self, premise: str, hypothesis: str) -> float:
        """Probability in [0, 1] that `hypothesis` follows from `premise`."""
        inputs = self._tokenizer(
            clean_text(premise),
            clean_text(hypothesis),
            truncation="longest_first",
            max_length=self._max_length,
            return_tensors="pt",
        ).to(self._device)
        with self._torch.inference_mode():
            logits = self._model(**inputs).logits[0].float()
        return float(logits.softmax(-1)[self._label])


def _device(torch: Any, device: str | None) -> str:
    there = torch.cuda.is_available()
    if device is None:
        return "cuda" if there else "cpu"
    if device.startswith("cuda") and not there:
        raise DeviceError(f"device {device!r} was asked for, but there is no CUDA device here")
    return device


def _load(folder: Path) -> tuple[Any, Any]:
    library: Any = optional_import("transformers")
    try:
        with quiet_loading():
            tokenizer = library.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            model = library.AutoModelForSequenceClassification.from_pretrained(
                str(folder), local_files_only=True, use_safetensors=True
            )
    except (OSError, ValueError, KeyError) as error:
        raise ModelFolderError(
            f"cannot be loaded ({type(error).__name__})",
            where=str(folder),
            mend="name the folder of an NLI model with its tokenizer",
        ) from None
    return tokenizer, model.eval()


def _entailment_label(names: dict[int, str], folder: Path) -> int:
    # Exactly so: a model of two classes calls the other one "not_entailment".
    found = [index for index, name in names.items() if str(name).casefold() == "entailment"]
    if len(found) != 1:
        raise ModelFolderError(
            f"no label is called entailment, only {', '.join(map(str, names.values()))}",
            where=str(folder),
            mend="name a model trained on natural language inference",
        )
    return int(found[0])
