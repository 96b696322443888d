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

from .._turns import cpu_count
from ..deadlines import check_deadline
from ..errors import InputError
from ..fingerprint import Fingerprint
from ._tokenizing import RerankerTemplate

BackendName = Literal["torch", "onnx"]
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
# Names of what a graph or module takes and gives.
INPUT_IDS, ATTENTION_MASK, TOKEN_TYPE_IDS = "input_ids", "attention_mask", "token_type_ids"
_DTYPES: Mapping[str, tuple[str, ...]] = {
    "torch": ("float32", "bfloat16", "float16"),
    "onnx": ("float32", "float16", "int8"),
}
# torch sums rows of fewer word pieces in another order where they are packed with others.
_SHORT_ROW = 12
# Rows that run together on another device than the CPU.
_ROWS_PER_BATCH = 64


class ScorerOptions(TypedDict, total=False):
    """The options of scorers that say what computes them; see `Runtime`."""

    backend: BackendName
    device: str
    dtype: DtypeName


@dataclass(frozen=True, slots=True)
class Runtime:
    """What computes a scorer, and how.

    Attributes:
        backend: `torch`, or `onnx` for the embedded model and for folders that
            `export_scorer` wrote.
        device: `cpu`, `cuda`, `cuda:N`; `auto` picks CUDA where there is one.
        dtype: `float32`, `bfloat16` (torch), `float16` (for CUDA), `int8` (onnx). Scores in
            another precision are other scores: calibrate with the one that is used.

    Raises:
        InputError: a value is not known, or the backend does not have the dtype.
    """

    backend: BackendName = "torch"
    device: str = "auto"
    dtype: DtypeName = "float32"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("backend", self.backend, get_args(BackendName)),
            ("dtype", self.dtype, get_args(DtypeName)),
        ):
            if value not in known:
                raise InputError(f"{value!r} is not one of {', '.join(known)}", where=name)
        if self.dtype not in _DTYPES[self.backend]:
            other = "onnx" if self.backend == "torch" else "torch"
            raise InputError(
                f"backend {self.backend!r} does not compute in {self.dtype}",
                where="dtype",
                hint=f"one of {', '.join(_DTYPES[self.backend])}, or backend {other!r}",
            )


class Backend(Protocol):
    """Runs one encoder or cross-encoder: arrays of ids in, arrays of numbers out.

    Attributes:
        name: as fingerprints record it, e.g. `torch`, `onnxruntime`.
        device: where it runs, e.g. `cpu`, `cuda:0`.
        dtype: numeric precision, e.g. `float32`.
        workers: how many threads may call `run` at once with profit.
    """

    @property
    def name(self) -> str:
        """How fingerprints call it."""
        ...

    @property
    def device(self) -> str:
        """Where it runs."""
        ...

    @property
    def dtype(self) -> str:
        """Numeric precision."""
        ...

    @property
    def workers(self) -> int:
        """How many threads may call `run` at once with profit."""
        ...

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
        ...


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
        model: the torch model, for exporting it; None for an exported one.
        takes_types: whether it is given token types.
        encode_texts: embeddings of texts by the model's own tokenizer and prompts, for
            models that have them; None where the rows of `tokenizer` are all there is.
        template: into which a language model is given pairs; None for all others.
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
    backend: Backend, ids: Sequence[Ids], types: Sequence[Ids] | None = None
) -> list[RowOutputs]:
    """Run rows of ids of any lengths; results in order, cut to each row's length.

    On a CPU no row is padded: ONNX Runtime computes one row at a time, torch several that
    follow each other in one long row. Numbers depend on neighbours in the last bits at most.
    On other devices rows of like length run together, padded.

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
    # Only where torch computes the model step by step, on a CPU.
    most_packed = getattr(backend, "most_packed", 0)
    packing: Any = backend

    def run(part: list[int]) -> None:
        check_deadline()
        rows = [ids[row] for row in part]
        row_types = None if types is None else [types[row] for row in part]
        if most_packed and len(part) > 1:
            outputs = packing.run_packed(rows, row_types)
        else:
            outputs = _run_padded(backend, rows, row_types)
        for row, one in zip(part, outputs, strict=True):
            found[row] = one

    lengths = [len(row) for row in ids]
    if backend.device == "cpu":
        parts = _parts(lengths, most_packed)
    else:
        # Sums of padded rows differ in the last bits, which can change what int8 rounds them to.
        parts = _batches(lengths, pads=backend.dtype != "int8")
    in_threads(run, parts, backend.workers)
    return found


def _run_padded(
    backend: Backend, rows: Sequence[Ids], types: Sequence[Ids] | None
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


def _batches(lengths: Sequence[int], *, pads: bool) -> list[list[int]]:
    """Rows of like length together, or of equal length where nothing may be padded."""
    batches: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        last = batches[-1] if batches else []
        fits = 0 < len(last) < _ROWS_PER_BATCH
        if fits and (pads or lengths[last[-1]] == lengths[row]):
            last.append(row)
        else:
            batches.append([row])
    return batches


def _parts(lengths: Sequence[int], most: int) -> list[list[int]]:
    """Rows that run together: of at most `most` word pieces, or one row.

    The longest come first, so that no thread is left with a long row at the end.
    """
    parts: list[list[int]] = []
    room = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if lengths[row] > room or lengths[row] < _SHORT_ROW:
            parts.append([])
            room = most
        parts[-1].append(row)
        room -= lengths[row]
    return parts


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
            except IndexError:  # another thread took the last one
                return
            try:
                run(part)
            except BaseException:
                waiting.clear()  # the others find nothing left to do
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
