"""Models of Hugging Face in torch, by the libraries they were made with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..deadlines import check_deadline
from ..errors import DeviceError, InputError, ModelFolderError, optional_import, require_extra
from ..files import file_sha256
from ..model_files import WEIGHTS
from ..process import keep_exit_code, keep_torch_usable
from ._tokenizing import MOST_PIECES, TOKENIZER_FILE, RerankerTemplate, known_templates
from .backends import ATTENTION_MASK, LoadedEncoder, Runtime, Settings
from .causal_model import choose_device
from .model_folder import (
    CLASSIFIER,
    INSTRUCT,
    READER,
    configuration_sha256,
    encoder_parts,
    json_fields,
    model_folder,
    pair_model,
    reading,
    require_all_tensors,
    require_length,
    require_pair_modules,
    require_sound,
    require_sound_part,
    weights_file,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Floats = NDArray[np.float32]
# Calls a model with tensors of ids, and gives tensors of numbers.
Outputs = Callable[[Any, Mapping[str, Any]], tuple[Any, ...]]
# Texts that sentence-transformers encodes together on a GPU.
_GPU_BATCH = 64


class TorchBackend:
    """Runs a model in torch; see `Backend`.

    Args:
        model: takes what `outputs` gives it.
        outputs: calls the model with the inputs; `encoded`, `logits`, `spans` or `answers`.
        dtype: as fingerprints record it.
    """

    name = "torch"
    # torch has threads of its own.
    workers = 1

    def __init__(self, model: Any, outputs: Outputs, dtype: str) -> None:
        keep_exit_code()
        self._torch = optional_import("torch")
        if dtype != "float32":
            model.to(getattr(self._torch, dtype))
        self._model = model
        self._outputs = outputs
        self.dtype = dtype
        self.device = str(model.device)
        if self.device == "cpu":
            keep_torch_usable()

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[Floats]:
        """Run the model once."""
        torch = self._torch
        given = {name: torch.from_numpy(array).to(self.device) for name, array in inputs.items()}
        with torch.inference_mode():
            found = self._outputs(self._model, given)
            return [one.float().cpu().numpy() for one in found]


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
    torch = optional_import("torch")
    states = model.base_model(**given, use_cache=False).last_hidden_state
    # Rows are padded on the right, where no token before can see it.
    last = given[ATTENTION_MASK].sum(dim=1) - 1
    ends = states[torch.arange(len(last), device=last.device), last]
    yes, no = words
    weight = model.get_output_embeddings().weight
    found = torch.nn.functional.linear(ends, torch.stack([weight[yes], weight[no]])).float()
    return (found[:, :1] - found[:, 1:],)


def load_torch(model: str | Path, runtime: Runtime) -> LoadedEncoder:
    """Load a sentence-transformers folder or hub model.

    Raises:
        InputError: the dtype is int8.
        ModelFolderError: no safetensors weights, they cannot be loaded, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: sentence-transformers is not installed.
    """
    dtype, folder, hashes = _opened(model, runtime)
    # Before any library that could import what the folder names.
    parts = encoder_parts(folder)
    for part in parts:
        if part != folder and (part / WEIGHTS).is_file():
            require_sound_part(part, part / WEIGHTS)
    loaded = _loaded(_sentence_transformer, folder, runtime.device)
    return LoadedEncoder(
        TorchBackend(loaded, encoded, dtype),
        loaded.tokenizer,
        folder,
        require_length(folder, loaded.max_seq_length or 512),
        *hashes,
        {"configuration_sha256": configuration_sha256(folder, parts)},
        loaded,
        encode_texts=_encode_texts(loaded),
    )


def _opened(model: str | Path, runtime: Runtime) -> tuple[str, Path, tuple[str, str | None]]:
    """The precision, the checked folder, and the sha256 of its weights and its tokenizer."""
    require_extra("hf")
    if runtime.dtype == "int8":
        what = "torch does not compute this model in int8"
        hint = "export it with `export_scorer(SCORER, DIR, pairs, dtype='int8')`"
        raise InputError(what, where="dtype", hint=hint)
    folder = model_folder(model)
    weights, tokenizer = weights_file(folder), folder / TOKENIZER_FILE
    require_sound(folder, [weights])
    if runtime.device != "auto":
        choose_device(runtime.device)
    hashes = file_sha256(weights), file_sha256(tokenizer) if tokenizer.is_file() else None
    return runtime.dtype or "float32", folder, hashes


def load_torch_cross_encoder(model: str | Path, runtime: Runtime) -> LoadedEncoder:
    """Load a model of transformers that reads pairs, from a folder or the hub.

    Raises:
        ModelFolderError: no safetensors weights, they cannot be loaded, the folder names code,
            or no template is known for the language model.
        DeviceError: the device is not there.
        MissingDependencyError: transformers is not installed.
    """
    dtype, folder, hashes = _opened(model, runtime)
    fields = json_fields(folder / "config.json")
    kind = pair_model(fields.get("architectures")) or CLASSIFIER
    family, template = str(fields.get("model_type")), None
    if kind == INSTRUCT:
        template = RerankerTemplate.of(family, folder)
    elif family in known_templates():
        what = "a language model that was made a classifier, whose template is not known"
        hint = "name the instruct reranker that it was made of"
        raise ModelFolderError(what, where=str(folder), hint=hint)
    tokenizer, network = _loaded(partial(_pair_network, kind), folder, runtime.device)
    settings: Settings = {"configuration_sha256": configuration_sha256(folder)}
    outputs: Outputs = spans if kind == READER else logits
    words = None
    if template is not None:
        words = template.answers(tokenizer, folder)
        outputs = partial(answers, words)
        settings["template_sha256"] = template.sha256
    require_pair_modules(folder, words)
    return LoadedEncoder(
        TorchBackend(network, outputs, dtype),
        tokenizer,
        folder,
        _most_pieces(network, tokenizer, folder),
        *hashes,
        settings,
        network,
        "token_type_ids" in tokenizer.model_input_names,
        template=template,
    )


def _most_pieces(model: Any, tokenizer: Any, folder: Path) -> int:
    """The length that sentence-transformers reads too, less positions that hold no text."""
    positions = int(getattr(model.config, "max_position_embeddings", 0) or 512)
    embeddings = getattr(model.base_model, "embeddings", None)
    # RoBERTa counts positions from behind that of padding.
    padding = getattr(getattr(embeddings, "position_embeddings", None), "padding_idx", None)
    positions -= 0 if padding is None else padding + 1
    most = require_length(folder, tokenizer.model_max_length)
    return require_length(folder, min(most, positions, MOST_PIECES))


def _pair_network(kind: str, folder: Path, device: str | None) -> tuple[Any, Any]:
    library = optional_import("transformers")
    safe = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = library.AutoTokenizer.from_pretrained(str(folder), **safe)
    model, report = getattr(library, f"AutoModelFor{kind}").from_pretrained(
        str(folder), use_safetensors=True, output_loading_info=True, **safe
    )
    require_all_tensors(folder, report)
    if tokenizer.truncation_side != "right" or not tokenizer.is_fast:
        raise ValueError(tokenizer.truncation_side)
    where = device or ("cuda" if optional_import("torch").cuda.is_available() else "cpu")
    return tokenizer, model.float().eval().to(where)


def _encode_texts(model: SentenceTransformer) -> Callable[[list[str]], Floats]:
    on_cpu = model.device.type == "cpu"

    def encode(texts: list[str]) -> Floats:
        encoded: list[Floats] = []
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


def _sentence_transformer(folder: Path, device: str | None) -> SentenceTransformer:
    library = optional_import("sentence_transformers")
    model: SentenceTransformer = library.SentenceTransformer(
        str(folder),
        device=device,
        model_kwargs={"use_safetensors": True},
        local_files_only=True,
        trust_remote_code=False,
    )
    return model.eval()


def _loaded(load: Callable[[Path, str | None], Any], folder: Path, device: str) -> Any:
    hint = "name a folder of sentence-transformers, or of a model that reads pairs, with "
    hint += "one safetensors file and a fast tokenizer"
    try:
        with reading(folder, "cannot be loaded", hint):
            return load(folder, None if device == "auto" else device)
    except optional_import("torch").OutOfMemoryError as error:
        if device == "auto":
            raise
        raise DeviceError(f"device {device!r} cannot be used ({type(error).__name__})") from None
