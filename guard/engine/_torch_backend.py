"""Encoders in torch: the embedded model in plain torch, others by sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._model_files import EMBEDDED_SHA256
from ..deadlines import check_deadline
from ..errors import DeviceError, ModelFolderError, optional_import
from ..files import file_sha256
from ._backends import LoadedEncoder, Runtime
from ._device_batches import CudaCapture, GraphRuns, to_device, to_host, token_rows_of
from ._loading import embedded_model_path, merge_adapter, quiet_loading, weights_file
from ._minilm import MiniLM
from ._model_folder import configuration_sha256, encoder_parts, model_folder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Texts that sentence-transformers encodes together on a GPU.
_GPU_BATCH = 64


class TorchBackend:
    """Runs an encoder in torch; see `Backend`.

    Args:
        model: gives `token_embeddings` and `sentence_embedding` of `input_ids` and
            `attention_mask`.
        dtype: as fingerprints record it.

    Attributes:
        batched: whether rows run together, by `start`: on every device but the CPU.
    """

    name = "torch"
    # torch has threads of its own.
    workers = 1

    def __init__(self, model: Any, dtype: str) -> None:
        self._torch: Any = optional_import("torch")
        self._model, self.dtype = model, dtype
        self.device = str(model.device)
        self.batched = self.device != "cpu"
        capture = CudaCapture() if self.device.startswith("cuda") else None
        self._runs = GraphRuns(self._launch, capture)

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Run the model once."""
        torch = self._torch
        given = {name: torch.from_numpy(array).to(self.device) for name, array in inputs.items()}
        with torch.inference_mode():
            return [one.cpu().numpy() for one in self._launch(given)]

    def start(
        self, inputs: Mapping[str, NDArray[np.int64]], lengths: Sequence[int]
    ) -> Callable[[], list[list[Any]]]:
        """Start the model on a padded batch, without waiting for it.

        Args:
            inputs: as `run`; rows beyond `lengths` only pad.
            lengths: tokens of each row.

        Returns:
            Waits, and returns the outputs of each row: token vectors as tensors that stay on
            the device, without padding; all else as arrays.
        """
        with self._torch.inference_mode(), self._runs.lock:
            outputs = self._runs(to_device(inputs, self.device))
            # Started before the lock is given back: a graph's next replay overwrites outputs.
            begun = [
                token_rows_of(one, lengths) if one.ndim == 3 else to_host(one[: len(lengths)])
                for one in outputs
            ]

        def wait() -> list[list[Any]]:
            columns = [one() if callable(one) else one for one in begun]
            return [list(row) for row in zip(*columns, strict=True)]

        return wait

    def _launch(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        # The same modules and steps as in sentence-transformers' `encode`, or bits would differ.
        features = self._model(dict(given))
        embeddings = self._torch.nn.functional.normalize(features["sentence_embedding"], p=2, dim=1)
        return features["token_embeddings"].float(), embeddings.float()


def load_torch(
    model: str | Path | None, runtime: Runtime, adapter: Path | None = None
) -> LoadedEncoder:
    """Load a sentence-transformers folder or hub model; None for the embedded one.

    Raises:
        ModelFolderError: no safetensors weights, they cannot be loaded, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: sentence-transformers is not installed.
    """
    embedded = model is None
    folder = embedded_model_path() if model is None else model_folder(model)
    weights = weights_file(folder)
    # Before any library that could import what the folder names.
    parts = [] if embedded else encoder_parts(folder)
    torch: Any = optional_import("torch")
    if runtime.device.startswith("cuda") and not torch.cuda.is_available():
        raise DeviceError(
            f"device {runtime.device!r} was asked for, but there is no CUDA device here"
        )
    loaded = _loaded(MiniLM if embedded else _sentence_transformer, folder, runtime.device)
    if adapter is not None:
        merge_adapter(loaded if isinstance(loaded, MiniLM) else loaded[0].auto_model, adapter)
    if runtime.dtype != "float32":
        reduce_precision(loaded, runtime.dtype)
    if isinstance(loaded, MiniLM) and loaded.device.type != "cpu":
        # Whether a batch is padded is not asked of the device: the host would wait for it.
        loaded.always_masks = True
    tokenizer = folder / "tokenizer.json"
    return LoadedEncoder(
        TorchBackend(loaded, runtime.dtype),
        loaded.tokenizer,
        folder,
        int(loaded.max_seq_length or 512),
        EMBEDDED_SHA256 if embedded else file_sha256(weights),
        file_sha256(tokenizer) if tokenizer.is_file() else None,
        {} if embedded else {"configuration_sha256": configuration_sha256(folder, parts)},
        loaded,
        None if isinstance(loaded, MiniLM) else _encode_texts(loaded),
    )


def _encode_texts(
    model: SentenceTransformer,
) -> Callable[[list[str]], NDArray[np.float32]]:
    on_cpu = model.device.type == "cpu"

    def encode(texts: list[str]) -> NDArray[np.float32]:
        encoded: list[NDArray[np.float32]] = []
        # One by one on a CPU: the library itself checks no deadline.
        for part in [[text] for text in texts] if on_cpu else [texts]:
            check_deadline()
            found = model.encode(
                part,
                batch_size=_GPU_BATCH,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
            encoded.extend(np.asarray(found, dtype=np.float32))
        return np.stack(encoded)

    return encode


def reduce_precision(model: SentenceTransformer | MiniLM, dtype: str) -> None:
    """Change the weights of a model to bfloat16 or float16."""
    if isinstance(model, MiniLM):
        model.reduce_precision(dtype)
    else:
        model.to(getattr(optional_import("torch"), dtype))


def _sentence_transformer(folder: Path, device: str | None) -> SentenceTransformer:
    library: Any = optional_import("sentence_transformers")
    with quiet_loading():
        model: SentenceTransformer = library.SentenceTransformer(
            str(folder),
            device=device,
            model_kwargs={"use_safetensors": True},
            local_files_only=True,
            trust_remote_code=False,
        )
    return model.eval()


def _loaded(
    load: Callable[[Path, str | None], SentenceTransformer | MiniLM], folder: Path, device: str
) -> SentenceTransformer | MiniLM:
    try:
        return load(folder, None if device == "auto" else device)
    except RuntimeError as error:
        if device != "auto":
            raise DeviceError(
                f"device {device!r} cannot be used ({type(error).__name__})"
            ) from None
        raise
    except (OSError, ValueError, KeyError) as error:
        raise ModelFolderError(
            f"cannot be loaded ({type(error).__name__})",
            where=str(folder),
            hint="name a sentence-transformers model folder",
        ) from None
