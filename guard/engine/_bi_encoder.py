"""Relevance by a bi-encoder: cosine of question and passage embeddings."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import getsizeof
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._byte_cache import ByteCache, content_key
from .._model_files import EMBEDDED_SHA256
from ..deadlines import check_deadline
from ..errors import DeviceError, ModelFolderError, optional_import
from ..files import file_sha256
from ..policy import Fingerprint
from ..text import clean_text
from ._language import is_readable
from ._loading import embedded_model_path, quiet_loading, weights_file
from ._minilm import MiniLM, piece_ids
from ._model_folder import configuration_sha256, encoder_parts, model_folder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


Embeddings = NDArray[np.float32]

# A word piece is rarely longer; text beyond this cannot reach the model anyway,
# so a megabyte of text need not be tokenised in full.
CHARACTERS_PER_TOKEN = 40


class BiEncoderScorer:
    """Cosine similarity of sentence embeddings, in [-1, 1].

    On a CPU every text is encoded by itself, without padding: scores then do not
    depend on what else is in the batch, so batch and single decisions are equal
    to the last bit (and short batches are faster there than padded ones).
    Passage embeddings are kept in memory, because retrieved passages repeat.

    Args:
        model: a sentence-transformers folder or hub id; None for the embedded
            all-MiniLM-L6-v2.
        device: `cpu`, `cuda`, `cuda:N`; None picks CUDA where there is one.
        cache_bytes: of the embeddings kept, least recently used dropped first; one takes
            1.8 kB at 384 dimensions. 0 keeps nothing.

    Raises:
        InputError: `cache_bytes` is negative.
        ModelFolderError: the folder has no safetensors weights or the wrong ones, or names code.
        DeviceError: the device is not there.
        MissingDependencyError: sentence-transformers is not installed.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        device: str | None = None,
        cache_bytes: int = 64 * 2**20,
    ) -> None:
        self._cache: ByteCache[bytes, Embeddings] = ByteCache(cache_bytes, getsizeof)
        loaded = load_encoder(model, device)
        self._model = loaded.model
        self._on_cpu = self._model.device.type == "cpu"
        self._max_characters = loaded.max_length * CHARACTERS_PER_TOKEN
        self._fingerprint = Fingerprint(
            kind="bi_encoder",
            weights_sha256=loaded.weights_sha256,
            backend="torch",
            dtype="float32",
            max_length=loaded.max_length,
            tokenizer_sha256=loaded.tokenizer_sha256,
            settings=loaded.settings,
        )
        self._tokenizer = free_tokenizer(self._model)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        return self._fingerprint

    @property
    def checks_deadline(self) -> bool:
        """Whether every pass is a short one, of one text on a CPU."""
        return self._on_cpu

    def supports(self, question: str) -> bool:
        """Whether a score of this question means anything.

        False where most word pieces are unknown, and for the embedded model where most
        letters are not Latin. Languages in Latin script are not distinguished.
        """
        if self._tokenizer is None:
            return True
        latin_only = self._fingerprint.weights_sha256 == EMBEDDED_SHA256
        text = _shortened(question, self._max_characters)
        pieces = piece_ids(self._tokenizer, text)
        unknown = self._model.tokenizer.unk_token_id
        return is_readable(question, pieces, unknown, latin_only=latin_only)

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Cosines of shape (len(passages),)."""
        return self.score_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Cosines of shape (len(pairs),) for (question, passage) pairs."""
        if not pairs:
            return np.zeros(0, dtype=np.float64)
        questions = self.embed([question for question, _ in pairs])
        passages = self.embed([passage for _, passage in pairs])
        # Row by row: a matrix product may sum in another order for other shapes.
        cosines = [float(np.dot(q, p)) for q, p in zip(questions, passages, strict=True)]
        return np.asarray(cosines, dtype=np.float64)

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Unit-length embeddings of shape (len(texts), dimensions), cached by text."""
        keys = [content_key(text) for text in texts]
        found = self._cache.found(keys)
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in found}
        if missing:
            encoded = self._encode(list(missing.values()))
            # Copies: a row of an array keeps the whole array in memory.
            fresh = {key: row.copy() for key, row in zip(missing, encoded, strict=True)}
            found.update(fresh)
            self._cache.keep(fresh)
        return np.stack([found[key] for key in keys])

    def _encode(self, texts: list[str]) -> Embeddings:
        shortened = [_shortened(text, self._max_characters) for text in texts]
        size = 1 if self._on_cpu else 64
        if isinstance(self._model, MiniLM):
            return self._model.encode(shortened, batch_size=size)
        encoded: list[Embeddings] = []
        # One by one on a CPU: the library itself checks no deadline.
        for part in [[text] for text in shortened] if self._on_cpu else [shortened]:
            check_deadline()
            found = self._model.encode(
                part,
                batch_size=size,
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
            encoded.extend(np.asarray(found, dtype=np.float32))
        return np.stack(encoded)


def _shortened(text: str, limit: int) -> str:
    text = clean_text(text)
    return text if len(text) <= limit else " ".join(text.split())[:limit]


@dataclass(frozen=True, slots=True)
class LoadedEncoder:
    """An encoder, ready to be run, and what fingerprints record of it."""

    model: SentenceTransformer | MiniLM
    folder: Path
    max_length: int
    weights_sha256: str
    tokenizer_sha256: str | None
    configuration_sha256: str | None

    @property
    def settings(self) -> dict[str, str | int | float | bool | None]:
        """What else changes its vectors; nothing for the embedded model, which is always one."""
        found = self.configuration_sha256
        return {} if found is None else {"configuration_sha256": found}

    @property
    def bert(self) -> Any:
        """The part that has the weights."""
        return self.model if isinstance(self.model, MiniLM) else self.model[0].auto_model


def load_encoder(model: str | os.PathLike[str] | None, device: str | None) -> LoadedEncoder:
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
    if device is not None and device.startswith("cuda") and not torch.cuda.is_available():
        raise DeviceError(f"device {device!r} was asked for, but there is no CUDA device here")
    loaded = _loaded(MiniLM if embedded else _sentence_transformer, folder, device)
    tokenizer = folder / "tokenizer.json"
    return LoadedEncoder(
        loaded,
        folder,
        int(loaded.max_seq_length or 512),
        EMBEDDED_SHA256 if embedded else file_sha256(weights),
        file_sha256(tokenizer) if tokenizer.is_file() else None,
        None if embedded else configuration_sha256(folder, parts),
    )


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
    load: Callable[[Path, str | None], SentenceTransformer | MiniLM],
    folder: Path,
    device: str | None,
) -> SentenceTransformer | MiniLM:
    try:
        return load(folder, device)
    except RuntimeError as error:
        if device is not None:
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


def free_tokenizer(model: SentenceTransformer | MiniLM) -> Any | None:
    """The model's tokenizer without truncation and padding; None for a slow one.

    A copy where the model sets its own to truncate again whenever it encodes,
    which may be on another thread at this moment.
    """
    if isinstance(model, MiniLM):
        return model.tokenizer.backend_tokenizer
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    library: Any = optional_import("tokenizers")
    tokenizer = library.Tokenizer.from_str(backend.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
