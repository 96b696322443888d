"""What runs an encoder: one interface for torch and ONNX Runtime, and the batcher above it."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from ..deadlines import check_deadline
from ..errors import InputError

BackendName = Literal["torch", "onnx"]
DtypeName = Literal["float32", "bfloat16", "float16", "int8"]
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
_GPU_BATCH = 64


class ScorerOptions(TypedDict, total=False):
    """The options of scorers that say what computes them; see `Runtime`."""

    backend: BackendName
    device: str
    dtype: DtypeName


@dataclass(frozen=True, slots=True)
class Runtime:
    """What computes a scorer, and how.

    Attributes:
        backend: `torch`, or `onnx` for a folder that `knowgate export-onnx` wrote.
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
    """Runs one encoder: arrays of ids in, arrays of numbers out.

    Attributes:
        name: as fingerprints record it, e.g. `torch`, `onnxruntime`.
        device: where it runs, e.g. `cpu`, `cuda:0`.
        dtype: numeric precision, e.g. `float32`.
        workers: how many threads may call `run` at once with profit.
    """

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> str: ...

    @property
    def dtype(self) -> str: ...

    @property
    def workers(self) -> int: ...

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Run the model once; safe from several threads.

        Args:
            inputs: `input_ids` and `attention_mask`, for cross-encoders `token_type_ids`;
                each of shape (rows, length).

        Returns:
            Encoders: token vectors of shape (rows, length, dimensions) and embeddings of
            unit length, of shape (rows, dimensions). Cross-encoders: logits of shape
            (rows, 1).
        """
        ...


@dataclass(frozen=True, slots=True)
class LoadedEncoder:
    """An encoder, ready to be run, and what fingerprints record of it.

    Attributes:
        backend: runs it.
        tokenizer: has `cls_token_id`, `sep_token_id`, `unk_token_id`, and
            `backend_tokenizer`, of the library tokenizers, or None.
        folder: where it was loaded from.
        max_length: word pieces per text, special ones included.
        weights_sha256: of the weights that were trained.
        tokenizer_sha256: of `tokenizer.json`, None without one.
        settings: what else changes its vectors.
        model: the torch model, for exporting it; None for an exported one.
        encode_texts: embeddings of texts by the model's own tokenizer and prompts, for
            models that have them; None where the rows of `tokenizer` are all there is.
    """

    backend: Backend
    tokenizer: Any
    folder: Path
    max_length: int
    weights_sha256: str
    tokenizer_sha256: str | None
    settings: Settings
    model: Any = None
    encode_texts: Callable[[list[str]], NDArray[np.float32]] | None = None


def run_rows(
    backend: Backend, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None
) -> list[list[NDArray[np.float32]]]:
    """Run rows of ids of any lengths; results in order, cut to each row's length.

    On a CPU every row runs by itself, without padding: its numbers do not depend on its
    neighbours, and nothing is spent on padding. On a GPU rows of like length run together.

    Args:
        backend: runs the rows.
        ids: word-piece ids of each row, special ones included.
        types: token types of each row, for cross-encoders.

    Returns:
        Per row the outputs of `Backend.run` without the first axis.

    Raises:
        DeadlineExceededError: nobody waits for the result any more.
    """
    size = 1 if backend.device == "cpu" else _GPU_BATCH
    # By length, so that what runs together is padded little; the longest first, so that no
    # thread is left with a long row at the end.
    order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    found: list[list[NDArray[np.float32]]] = [[] for _ in ids]

    def run(part: list[int]) -> None:
        check_deadline()
        inputs = {INPUT_IDS: _padded([ids[i] for i in part]), ATTENTION_MASK: _mask(ids, part)}
        if types is not None:
            inputs[TOKEN_TYPE_IDS] = _padded([types[i] for i in part])
        outputs = backend.run(inputs)
        for row, i in enumerate(part):
            # Copies: a row of an array keeps the whole array in memory.
            found[i] = [
                np.array(one[row, : len(ids[i])] if one.ndim == 3 else one[row], dtype=np.float32)
                for one in outputs
            ]

    in_threads(run, parts, backend.workers)
    return found


def _padded(rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    padded = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for place, row in enumerate(rows):
        padded[place, : len(row)] = row
    return padded


def _mask(ids: Sequence[Sequence[int]], part: Sequence[int]) -> NDArray[np.int64]:
    lengths = np.array([len(ids[i]) for i in part])
    return (np.arange(lengths.max())[None, :] < lengths[:, None]).astype(np.int64)


def in_threads(run: Callable[[list[int]], None], parts: list[list[int]], workers: int) -> None:
    """Call `run` with each part, on the caller's thread and on up to `workers - 1` others.

    The caller never waits for a thread that has not begun, so busy threads cost no time.
    The first error is raised after all threads have stopped.
    """
    if workers < 2 or len(parts) < 2:
        for part in parts:
            run(part)
        return
    waiting, lock = iter(parts), threading.Lock()

    def work() -> None:
        for part in _taken(waiting, lock):
            run(part)

    # Each with a context of its own, by which it knows the caller's deadline.
    helpers = [
        _pool().submit(contextvars.copy_context().run, work)
        for _ in range(min(workers, len(parts)) - 1)
    ]
    try:
        work()
    finally:
        with lock:
            # After an error the helpers find nothing left to do.
            for _ in waiting:
                pass
        begun = [helper for helper in helpers if not helper.cancel()]
        errors = [helper.exception() for helper in begun]
    for error in errors:
        if error is not None:
            raise error


def _taken(parts: Iterator[list[int]], lock: threading.Lock) -> Iterator[list[int]]:
    while True:
        with lock:
            part = next(parts, None)
        if part is None:
            return
        yield part


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, cpu_count() - 1), thread_name_prefix="knowgate-encoder")


# A forked process has none of the threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def cpu_count() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
