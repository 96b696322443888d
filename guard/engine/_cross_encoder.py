"""Relevance by a cross-encoder: a model that reads question and passage together."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .._byte_cache import CACHE_BYTES
from ..errors import InputError, ModelFolderError
from ..policy import Fingerprint
from ._backends import BackendName, DtypeName, LoadedEncoder, Runtime, run_rows
from ._language import is_readable
from ._load_encoder import load_cross_encoder
from ._tokenizing import PairRow, PairTokenizer, Truncation, free_tokenizer

KIND = "cross_encoder"


class CrossEncoderScorer:
    """Log-odds that a passage answers a question, by a Hugging Face reranker with one label.

    The numbers are those of `sentence_transformers.CrossEncoder.predict` before its activation
    function. On a CPU every pair runs by itself, without padding, so that a score depends on
    nothing but its pair. Each text is tokenised once; the ids of passages are kept.

    Args:
        model: a folder or hub id with `model.safetensors` and its tokenizer; for ONNX Runtime
            a folder that `knowgate export-onnx` wrote.
        backend: `torch` or `onnx`.
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`, `bfloat16`, `float16` or `int8`, as the backend has it.
        max_length: word pieces of both texts together, special ones included; None for as
            many as the model reads.
        truncation: what is cut of a longer pair: `longest_first`, as sentence-transformers
            does, or `only_second`, the passage.
        cache_bytes: of the ids kept, least recently used dropped first; a passage of 100
            words takes about 1 kB. 0 keeps nothing.

    Raises:
        InputError: an option is not known or off its scale, or options do not go together.
        ModelFolderError: no safetensors weights, several labels, a tokenizer that does not
            put fixed marks around two texts, or the folder names code.
        DeviceError: the device is not there.
        MissingDependencyError: transformers is not installed.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        backend: BackendName = "torch",
        device: str = "auto",
        dtype: DtypeName = "float32",
        max_length: int | None = None,
        truncation: Truncation = "longest_first",
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._loaded = loaded = load_cross_encoder(model, Runtime(backend, device, dtype))
        labels = 1 if loaded.model is None else int(loaded.model.config.num_labels)
        if labels != 1:
            raise ModelFolderError(
                f"the model has {labels} labels, not 1",
                where=str(loaded.folder),
                hint="name a reranker; for natural language inference use CrossEncoderEntailment",
            )
        if max_length is not None and not 0 < max_length <= loaded.max_length:
            raise InputError(f"must be from 1 to {loaded.max_length}", where="max_length")
        self._max_length = max_length or loaded.max_length
        self._tokenizer = free_tokenizer(loaded.tokenizer)
        self._pairs = PairTokenizer(self._tokenizer, self._max_length, truncation, cache_bytes)
        self._fingerprint = loaded.fingerprint(KIND, self._max_length, {"truncation": truncation})

    @property
    def fingerprint(self) -> Fingerprint:
        """What a policy calibrated on this scorer is bound to."""
        return self._fingerprint

    @property
    def checks_deadline(self) -> bool:
        """Whether every pass is a short one, of one pair on a CPU."""
        return self._loaded.backend.device == "cpu"

    @property
    def loaded(self) -> LoadedEncoder:
        """What runs the model, and what it was loaded from."""
        return self._loaded

    def supports(self, question: str) -> bool:
        """Whether most word pieces of the question are in the vocabulary."""
        [read] = self._pairs.read([question])
        unknown = self._loaded.tokenizer.unk_token_id
        return is_readable(question, read.ids.tolist(), unknown, latin_only=False)

    def score(self, question: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Log-odds of shape (len(passages),)."""
        return self.score_pairs([(question, passage) for passage in passages])

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Log-odds of shape (len(pairs),) for (question, passage) pairs."""
        return self.encode_post(self.encode_core(self.encode_pre(pairs)))

    def encode_pre(self, pairs: Sequence[tuple[str, str]]) -> list[PairRow]:
        """Tokenise: the row that the model reads of each pair."""
        return self._pairs.rows(pairs)

    def encode_core(self, rows: Sequence[PairRow]) -> list[list[NDArray[np.float32]]]:
        """Compute: what the model gives for each row."""
        types = [row.types for row in rows] if self._loaded.takes_types else None
        return run_rows(self._loaded.backend, [row.ids for row in rows], types)

    def encode_post(self, outputs: Sequence[Sequence[NDArray[np.float32]]]) -> NDArray[np.float64]:
        """Shape: one number per row."""
        return np.array([one[0][0] for one in outputs], dtype=np.float64)
