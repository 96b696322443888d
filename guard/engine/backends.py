"""What runs a model: one interface for torch and ONNX Runtime, and rows run through it."""

from __future__ import annotations

import contextvars
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from ..deadlines import check_deadline
from ..errors import require_known
from ..fingerprint import Fingerprint
from ..process import cpu_count
from ._tokenizing import RerankerTemplate

DtypeName = Literal["float32", "bfloat16", "float16", "int8"]
# Word-piece ids of one row.
Ids = Sequence[int] | NDArray[np.int32]
# Of one row: token vectors and embedding, or logits.
RowOutputs = list[NDArray[np.float32]]
Settings = dict[str, str | int | float | bool | None]

# The setting by which fingerprints cover an exported graph.
GRAPH_SHA256 = "graph_sha256"
# Marks the folder of an exported encoder.
MANIFEST_FILE = "exported.json"
# Marks the folder of the multilingual encoder.
MULTILINGUAL_FILE = "multilingual.json"
# Marks the folder of the downloaded reranker.
READER_FILE = "reader.json"
# Names of what a graph or module takes and gives.
INPUT_IDS, ATTENTION_MASK, TOKEN_TYPE_IDS = "input_ids", "attention_mask", "token_type_ids"
# Rows that run together on another device than the CPU.
_ROWS_PER_BATCH = 64


class ScorerOptions(TypedDict, total=False):
    """The options of scorers that say what computes them; see `Runtime`."""

    device: str
    dtype: DtypeName


@dataclass(frozen=True, slots=True)
class Runtime:
    """Where a scorer is computed, and how.

    Attributes:
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`; `int8` for the bundled models on a CPU; `bfloat16` or `float16` for
            models of Hugging Face. None is float32, and for an exported model its own. Scores in
            another precision are other scores: calibrate with the one that is used.

    Raises:
        InputError: the dtype is not known.
    """

    device: str = "auto"
    dtype: DtypeName | None = None

    def __post_init__(self) -> None:
        if self.dtype is not None:
            require_known(self.dtype, get_args(DtypeName), "dtype")


class Backend(Protocol):
    """Runs one encoder or cross-encoder: arrays of ids in, arrays of numbers out.

    Attributes:
        name: as fingerprints record it, e.g. `torch`, `onnxruntime`.
        device: where it runs, e.g. `cpu`, `cuda:0`.
        dtype: numeric precision, e.g. `float32`.
        workers: how many threads may call `run` at once with profit.
    """

    name: str
    device: str
    dtype: str
    workers: int

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Run the model once; safe from several threads.

        Args:
            inputs: `input_ids` and `attention_mask`, and `token_type_ids` for models that
                take them; each of shape (rows, length).

        Returns:
            Encoders: token vectors of shape (rows, length, dimensions) and embeddings of
            unit length, of shape (rows, dimensions). Cross-encoders: logits of shape
            (rows, labels); extractive readers: of the start and of the end of an answer, each
            of shape (rows, length).
        """


@dataclass(frozen=True, slots=True)
class LoadedEncoder:
    """An encoder or cross-encoder, ready to be run, and what fingerprints record of it.

    Attributes:
        backend: runs it.
        tokenizer: has `cls_token_id`, `sep_token_id`, `unk_token_id`, and
            `backend_tokenizer`, of the library tokenizers, or None.
        folder: where it was loaded from.
        max_length: word pieces per text, special ones included.
        weights_sha256: of the weights that were trained.
        tokenizer_sha256: of `tokenizer.json`, None without one.
        settings: what else changes its numbers.
        model: the torch model; None for one in ONNX Runtime.
        takes_types: whether it is given token types.
        encode_texts: embeddings of texts by the model's own tokenizer and prompts, for
            models that have them; None where the rows of `tokenizer` are all there is.
        template: into which a language model is given pairs; None for all others.
        prefix: ids that the model was trained to read before a text's own.
        piece_weights: how much a word piece tells, by its id; None where that is not known.
    """

    backend: Backend
    tokenizer: Any
    folder: Path
    max_length: int
    weights_sha256: str
    tokenizer_sha256: str | None
    settings: Settings
    model: Any = None
    takes_types: bool = False
    encode_texts: Callable[[list[str]], NDArray[np.float32]] | None = None
    template: RerankerTemplate | None = None
    prefix: tuple[int, ...] = ()
    piece_weights: NDArray[np.float32] | None = None

    def fingerprint(self, kind: str, max_length: int, settings: Settings) -> Fingerprint:
        """The fingerprint of a scorer of `kind` that rests on it.

        Args:
            kind: of the scorer.
            max_length: word pieces that the scorer reads.
            settings: what else of the scorer changes its scores.
        """
        return Fingerprint(
            kind=kind,
            weights_sha256=self.weights_sha256,
            backend=self.backend.name,
            dtype=self.backend.dtype,
            max_length=max_length,
            tokenizer_sha256=self.tokenizer_sha256,
            settings={**self.settings, **settings},
        )


def run_rows(
    backend: Backend,
    ids: Sequence[Ids],
    types: Sequence[Ids] | None = None,
) -> list[RowOutputs]:
    """Run rows of ids of any lengths; results in order, cut to each row's length.

    On a CPU one row runs at a time, unpadded, so that numbers do not depend on neighbours. On
    other devices rows of like length run together, padded.

    Args:
        backend: runs the rows.
        ids: word-piece ids of each row, special ones included.
        types: token types of each row, for models that take them.

    Returns:
        Per row the outputs of `Backend.run` without the first axis.

    Raises:
        DeadlineExceededError: nobody waits for the result any more.
    """
    found: list[RowOutputs] = [[] for _ in ids]

    def run(part: list[int]) -> None:
        check_deadline()
        rows = [ids[row] for row in part]
        row_types = None if types is None else [types[row] for row in part]
        for row, one in zip(part, _run_padded(backend, rows, row_types), strict=True):
            found[row] = one

    # The longest come first, so that no thread is left with a long row at the end.
    order = sorted(range(len(ids)), key=lambda row: -len(ids[row]))
    most = 1 if backend.device == "cpu" else _ROWS_PER_BATCH
    parts = [order[start : start + most] for start in range(0, len(order), most)]
    in_threads(run, parts, backend.workers)
    return found


def _run_padded(
    backend: Backend,
    rows: Sequence[Ids],
    types: Sequence[Ids] | None,
) -> list[RowOutputs]:
    """Run rows together, those that are shorter than the longest padded with 0."""
    lengths = [len(row) for row in rows]
    width = max(lengths)
    inputs = {
        INPUT_IDS: _padded(rows, width),
        ATTENTION_MASK: _padded([[1] * length for length in lengths], width),
    }
    if types is not None:
        inputs[TOKEN_TYPE_IDS] = _padded(types, width)
    outputs = backend.run(inputs)
    # Copies: a row of an array keeps the whole array in memory.
    return [
        [np.array(one[row, :length] if one.ndim == 3 else one[row], np.float32) for one in outputs]
        for row, length in enumerate(lengths)
    ]


def _padded(rows: Sequence[Ids], width: int) -> NDArray[np.int64]:
    found = np.zeros((len(rows), width), dtype=np.int64)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found


def in_threads(run: Callable[[list[int]], None], parts: list[list[int]], workers: int) -> None:
    """Call `run` with each part, on the caller's thread and on up to `workers - 1` others.

    The caller never waits for a thread that has not begun, so busy threads cost no time.
    The first error is raised after all threads have stopped.
    """
    waiting = deque(parts)

    def work() -> None:
        while waiting:
            try:
                part = waiting.popleft()
            except IndexError:
                # Another thread took the last one.
                return
            try:
                run(part)
            except BaseException:
                # The others find nothing left to do.
                waiting.clear()
                raise

    # Each with a context of its own, by which it knows the caller's deadline.
    helpers = [
        _pool().submit(contextvars.copy_context().run, work)
        for _ in range(min(workers, len(parts)) - 1)
    ]
    try:
        work()
    finally:
        errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in errors:
        if error is not None:
            raise error


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, cpu_count() - 1), thread_name_prefix="knowgate-encoder")


# A forked process has none of the threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
