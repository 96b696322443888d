"""Models in torch: the embedded one in plain torch, others by the libraries they were made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..deadlines import check_deadline
from ..errors import DeviceError, ModelFolderError, optional_import
from ..files import file_sha256, read_json
from ..model_files import ADAPTER_CONFIG, ADAPTER_WEIGHTS, EMBEDDED_SHA256, HEAD_WEIGHTS, WEIGHTS
from ..process import keep_exit_code, keep_torch_usable
from ._minilm import BertClassifier, MiniLM, PlainBert
from ._tokenizing import MOST_PIECES, TOKENIZER_FILE, RerankerTemplate, known_templates
from .backends import ATTENTION_MASK, Ids, LoadedEncoder, RowOutputs, Runtime, Settings
from .loading import embedded_model_path, merge_adapter, read_tensors, weights_file
from .model_folder import (
    CLASSIFIER,
    INSTRUCT,
    READER,
    ModelFolder,
    encoder_parts,
    model_folder,
    pair_model,
    require_pair_modules,
    require_sound_part,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Calls a model with tensors of ids, and gives tensors of numbers.
Outputs = Callable[[Any, Mapping[str, Any]], tuple[Any, ...]]
# Texts that sentence-transformers encodes together on a GPU.
_GPU_BATCH = 64
# Word pieces that run together on a CPU: with more, products take as long per piece.
_PIECES_AT_ONCE = 1024
# Of a pair, as the bundled cross-encoder was trained.
_PAIR_PIECES = 176


class TorchBackend:
    """Runs a model in torch; see `Backend`.

    Args:
        model: takes what `outputs` gives it.
        outputs: calls the model with the inputs; `encoded`, `logits`, `spans` or `answers`.
        dtype: as fingerprints record it.

    Attributes:
        most_packed: word pieces that `run_packed` computes together; 0 where it cannot be used.
    """

    name = "torch"
    # torch has threads of its own.
    workers = 1

    def __init__(self, model: Any, outputs: Outputs, dtype: str) -> None:
        keep_exit_code()
        self._torch: Any = optional_import("torch")
        self._model, self._outputs, self.dtype = model, outputs, dtype
        self.device = str(model.device)
        on_cpu = self.device == "cpu"
        self.most_packed = _PIECES_AT_ONCE if on_cpu and isinstance(model, PlainBert) else 0
        if on_cpu:
            keep_torch_usable()

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Run the model once."""
        torch = self._torch
        given = {name: torch.from_numpy(array).to(self.device) for name, array in inputs.items()}
        with torch.inference_mode():
            found = self._outputs(self._model, given)
            return [one.float().cpu().numpy() for one in found]

    def run_packed(
        self, ids: Sequence[Ids], types: Sequence[Ids] | None = None
    ) -> list[RowOutputs]:
        """Run several rows together, without padding; the outputs of each.

        Raises:
            DeadlineExceededError: nobody waits for the result any more.
        """
        with self._torch.inference_mode():
            computed = iter(self._model.packed(ids, types))
            rows = [self._outputs(lambda *_: next(computed), {}) for _ in ids]
            # Copies: a row of an array keeps the whole array in memory.
            return [[np.array(one[0].float().numpy()) for one in row] for row in rows]


def encoded(model: Any, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Token vectors and embeddings of unit length."""
    # The same modules and steps as in sentence-transformers' `encode`, or bits would differ.
    features = model(dict(given))
    normalize = optional_import("torch").nn.functional.normalize
    return features["token_embeddings"], normalize(features["sentence_embedding"], p=2, dim=1)


def logits(model: Any, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Logits of pairs."""
    return (model(**given).logits,)


def spans(model: Any, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Logits of the first and of the last token of an answer."""
    found = model(**given)
    return found.start_logits, found.end_logits


def answers(words: tuple[int, int], model: Any, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """The logit of the word for yes minus that of the word for no, as what comes next."""
    torch: Any = optional_import("torch")
    states = model.base_model(**given, use_cache=False).last_hidden_state
    # Rows are padded on the right, where no token before can see it.
    last = given[ATTENTION_MASK].sum(dim=1) - 1
    ends = states[torch.arange(len(last), device=last.device), last]
    yes, no = words
    weight = model.get_output_embeddings().weight
    found = torch.nn.functional.linear(ends, torch.stack([weight[yes], weight[no]])).float()
    return (found[:, :1] - found[:, 1:],)


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
    checked, parts = ModelFolder(folder), [] if embedded else encoder_parts(folder)
    if not embedded:
        checked.require_sound([weights])
    for part in parts:
        if part != folder and (part / WEIGHTS).is_file():
            require_sound_part(part, part / WEIGHTS)
    _require_device(runtime.device)
    loaded = _loaded(MiniLM if embedded else _sentence_transformer, folder, runtime.device)
    if adapter is not None:
        merge_adapter(loaded if isinstance(loaded, MiniLM) else loaded[0].auto_model, adapter)
    if runtime.dtype != "float32":
        reduce_precision(loaded, runtime.dtype)
    _make_ready(loaded)
    tokenizer = folder / TOKENIZER_FILE
    return LoadedEncoder(
        TorchBackend(loaded, encoded, runtime.dtype),
        loaded.tokenizer,
        folder,
        checked.require_length(loaded.max_seq_length or 512),
        EMBEDDED_SHA256 if embedded else file_sha256(weights),
        file_sha256(tokenizer) if tokenizer.is_file() else None,
        {} if embedded else {"configuration_sha256": checked.configuration_sha256(parts)},
        loaded,
        encode_texts=None if isinstance(loaded, MiniLM) else _encode_texts(loaded),
    )


def load_torch_cross_encoder(model: str | Path, runtime: Runtime) -> LoadedEncoder:
    """Load a model of transformers that reads pairs, from a folder or the hub.

    Raises:
        ModelFolderError: no safetensors weights, they cannot be loaded, the folder names code,
            or no template is known for the language model.
        DeviceError: the device is not there.
        MissingDependencyError: transformers is not installed.
    """
    folder = model_folder(model)
    weights = weights_file(folder)
    checked = ModelFolder(folder)
    checked.require_sound([weights])
    _require_device(runtime.device)
    config = read_json(folder / "config.json")
    fields = config if isinstance(config, dict) else {}
    kind = pair_model(fields.get("architectures")) or CLASSIFIER
    family, template = str(fields.get("model_type")), None
    if kind == INSTRUCT:
        template = RerankerTemplate.of(family, folder)
    elif family in known_templates():
        raise ModelFolderError(
            "a language model that was made a classifier, whose template is not known",
            where=str(folder),
            hint="name the instruct reranker that it was made of",
        )
    tokenizer, whole = _loaded(partial(_pair_network, kind), folder, runtime.device)
    settings: Settings = {"configuration_sha256": checked.configuration_sha256()}
    outputs: Outputs = spans if kind == READER else logits
    words = None
    if template is not None:
        words = template.answers(tokenizer, folder)
        outputs = partial(answers, words)
        settings["template_sha256"] = template.sha256
    require_pair_modules(folder, words)
    network = BertClassifier.of(whole) if BertClassifier.computes(whole) else whole
    _make_ready(network)
    if runtime.dtype != "float32":
        reduce_precision(network, runtime.dtype)
    file = folder / TOKENIZER_FILE
    return LoadedEncoder(
        TorchBackend(network, outputs, runtime.dtype),
        tokenizer,
        folder,
        _most_pieces(whole, tokenizer, checked),
        file_sha256(weights),
        file_sha256(file) if file.is_file() else None,
        settings,
        network,
        "token_type_ids" in tokenizer.model_input_names,
        template=template,
    )


def load_embedded_cross_encoder(adapter: Path, runtime: Runtime) -> LoadedEncoder:
    """Load the embedded model with changes and a head that make it a cross-encoder.

    Args:
        adapter: folder of a LoRA adapter and of `head.safetensors`.
        runtime: what computes it.

    Raises:
        ModelFolderError: a file is missing or cannot be loaded.
        DeviceError: the device is not there.
    """
    folder = embedded_model_path()
    _require_device(runtime.device)
    encoder: MiniLM = _loaded(MiniLM, folder, runtime.device)
    merge_adapter(encoder, adapter)

    try:
        network = BertClassifier.on_top_of(encoder, read_tensors(adapter / HEAD_WEIGHTS))
    except ValueError:
        raise ModelFolderError(
            "its weights are not those of a pooler and a classifier of one logit",
            where=str(adapter / HEAD_WEIGHTS),
            hint="use the bundled folder",
        ) from None
    _make_ready(network)
    if runtime.dtype != "float32":
        reduce_precision(network, runtime.dtype)
    files = {"adapter_config": ADAPTER_CONFIG, "adapter": ADAPTER_WEIGHTS, "head": HEAD_WEIGHTS}
    return LoadedEncoder(
        TorchBackend(network, logits, runtime.dtype),
        encoder.tokenizer,
        folder,
        _PAIR_PIECES,
        EMBEDDED_SHA256,
        file_sha256(folder / TOKENIZER_FILE),
        {f"{name}_sha256": file_sha256(adapter / file) for name, file in files.items()},
        network,
        takes_types=True,
    )


def _make_ready(model: Any) -> None:
    if isinstance(model, PlainBert) and model.device.type != "cpu":
        # Whether a batch is padded is not asked of the device: the host would wait for it.
        model.always_masks = True


def _most_pieces(model: Any, tokenizer: Any, folder: ModelFolder) -> int:
    """The length that sentence-transformers reads too, less positions that hold no text."""
    positions = int(getattr(model.config, "max_position_embeddings", 0) or 512)
    embeddings = getattr(model.base_model, "embeddings", None)
    # RoBERTa counts positions from behind that of padding.
    padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    positions -= 0 if padding is None else padding + 1
    most = folder.require_length(tokenizer.model_max_length)
    return folder.require_length(min(most, positions, MOST_PIECES))


def _pair_network(kind: str, folder: Path, device: str | None) -> tuple[Any, Any]:
    library: Any = optional_import("transformers")
    safe = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = library.AutoTokenizer.from_pretrained(str(folder), **safe)
    model, report = getattr(library, f"AutoModelFor{kind}").from_pretrained(
        str(folder), use_safetensors=True, output_loading_info=True, **safe
    )
    ModelFolder(folder).require_all_tensors(report)
    if tokenizer.truncation_side != "right" or not tokenizer.is_fast:
        raise ValueError(tokenizer.truncation_side)
    where = device or ("cuda" if optional_import("torch").cuda.is_available() else "cpu")
    return tokenizer, model.float().eval().to(where)


def _require_device(device: str) -> None:
    torch: Any = optional_import("torch")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise DeviceError(f"device {device!r} was asked for, but there is no CUDA device here")
    if device != "auto":
        try:
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise DeviceError(
                f"device {device!r} cannot be used ({type(error).__name__})"
            ) from None


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


def reduce_precision(model: Any, dtype: str) -> None:
    """Change the weights of a model to bfloat16 or float16."""
    if isinstance(model, PlainBert):
        model.reduce_precision(dtype)
    else:
        model.to(getattr(optional_import("torch"), dtype))


def _sentence_transformer(folder: Path, device: str | None) -> SentenceTransformer:
    library: Any = optional_import("sentence_transformers")
    model: SentenceTransformer = library.SentenceTransformer(
        str(folder),
        device=device,
        model_kwargs={"use_safetensors": True},
        local_files_only=True,
        trust_remote_code=False,
    )
    return model.eval()


def _loaded(load: Callable[[Path, str | None], Any], folder: Path, device: str) -> Any:
    hint = (
        "name a folder of sentence-transformers, or of a model that reads pairs, with "
        "one safetensors file and a fast tokenizer"
    )
    try:
        with ModelFolder(folder).reading("cannot be loaded", hint, quiet=load is not MiniLM):
            return load(folder, None if device == "auto" else device)
    except optional_import("torch").OutOfMemoryError as error:
        if device == "auto":
            raise
        raise DeviceError(f"device {device!r} cannot be used ({type(error).__name__})") from None
