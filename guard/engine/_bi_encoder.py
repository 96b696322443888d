"""Relevance by a bi-encoder: cosine of question and passage embeddings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from sys import getsizeof

import numpy as np
from numpy.typing import NDArray

from .._byte_cache import ByteCache, made_of
from ..contracts import RelevanceScorer
from ..fingerprint import Fingerprint
from ..model_files import EMBEDDED_SHA256
from ..text import foreign_language, is_readable
from ._tokenizing import free_tokenizer, piece_ids, shortened, token_rows
from .backends import DtypeName, LoadedEncoder, Runtime, run_rows
from .load_encoder import load_encoder

Embeddings = NDArray[np.float32]


class BiEncoderScorer(RelevanceScorer):
    """Cosine similarity of sentence embeddings, in [-1, 1].

    On a CPU no text is padded, so that scores do not depend on what else is encoded but
    for the last bits.
    Passage embeddings are kept in memory, because retrieved passages repeat.

    Args:
        model: a sentence-transformers folder or hub id, or a folder that `export_scorer`
            wrote; None for the bundled all-MiniLM-L6-v2.
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`, or `int8` on a CPU for the bundled model; of Hugging Face also
            `bfloat16` and `float16`; None as the model is.
        cache_bytes: of the embeddings kept, least recently used dropped first; one takes
            1.8 kB at 384 dimensions. 0 keeps nothing.

    Raises:
        InputError: `cache_bytes` is negative, or the model does not have the dtype.
        ModelFolderError: the folder has no safetensors weights or the wrong ones, or names code.
        DeviceError: the device is not there.
        MissingDependencyError: sentence-transformers is not installed.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        device: str = "auto",
        dtype: DtypeName | None = None,
        cache_bytes: int = 64 * 2**20,
    ) -> None:
        self._cache: ByteCache[bytes, Embeddings] = ByteCache(cache_bytes, getsizeof, "embeddings")
        self._loaded = load_encoder(model, Runtime(device, dtype))
        self._fingerprint = self._loaded.fingerprint("bi_encoder", self._loaded.max_length, {})
        self._tokenizer = free_tokenizer(self._loaded.tokenizer)

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        return self._fingerprint

    @property
    def checks_deadline(self) -> bool:
        """Whether a passed deadline soon ends it: on a CPU, where passes are short."""
        return self._loaded.backend.device == "cpu"

    @property
    def loaded(self) -> LoadedEncoder:
        """What runs the encoder, and what it was loaded from."""
        return self._loaded

    def supports(self, question: str) -> bool:
        """Whether a score of this question means anything.

        False where most word pieces are unknown, and for the embedded model where most letters
        are not Latin, or the language is clearly another than English.
        """
        if self._tokenizer is None:
            return True
        latin_only = self._fingerprint.weights_sha256 == EMBEDDED_SHA256
        if latin_only and foreign_language(question):
            return False
        text = shortened(question, self._loaded.max_length)
        pieces = piece_ids(self._tokenizer, text)
        unknown = self._loaded.tokenizer.unk_token_id
        return is_readable(question, pieces, unknown, latin_only=latin_only)

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

        def encoded(missing: dict[bytes, str]) -> dict[bytes, Embeddings]:
            rows = zip(missing, self._encode(list(missing.values())), strict=True)
            # Copies: a row of an array keeps the whole array in memory.
            return {key: row.copy() for key, row in rows}

        return np.stack(made_of(self._cache, texts, encoded))

    def _encode(self, texts: list[str]) -> Embeddings:
        if self._loaded.encode_texts is not None:
            read = self._loaded.max_length
            return self._loaded.encode_texts([shortened(text, read) for text in texts])
        return self.encode_post(self.encode_core(self.encode_pre(texts)))

    def encode_pre(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise: the ids that the model reads of each text."""
        read = self._loaded.max_length
        cut = [shortened(text, read) for text in texts]
        return token_rows(self._tokenizer, self._loaded.tokenizer, read, cut)

    def encode_core(self, rows: Sequence[Sequence[int]]) -> list[list[NDArray[np.float32]]]:
        """Compute: what the model gives for each row."""
        return run_rows(self._loaded.backend, rows)

    def encode_post(self, outputs: Sequence[Sequence[NDArray[np.float32]]]) -> Embeddings:
        """Shape: embeddings of shape (rows, dimensions)."""
        return np.stack([embedding for _, embedding in outputs])
