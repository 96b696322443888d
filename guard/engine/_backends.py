"""What runs a model: one interface for torch and ONNX Runtime, and the batcher above it."""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from ..deadlines import check_deadline, cpu_count
from ..errors import InputError
from ..policy import Fingerprint
from ._device_batches import Ids, mask_of, padded, plan_batches, unpadded_batches
from ._instruct_pairs import RerankerTemplate

BackendName = Literal["torch", "onnx"]
DtypeName = Literal["float32", "bfloat16", "float16", "int8"]
# Of one row: token vectors (arrays, or tensors that stay on a device), embedding or logits.
RowOutputs = list[Any]
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
# Batches on a GPU whose results nobody has fetched yet: their vectors take memory there.
_MOST_STARTED = 4


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
            `knowgate export-onnx` wrote.
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
            inputs: `input_ids` and `attention_mask`, and `token_type_ids` for models that
                take them; each of shape (rows, length).

        Returns:
            Encoders: token vectors of shape (rows, length, dimensions) and embeddings of
            unit length, of shape (rows, dimensions). Cross-encoders: logits of shape
            (rows, labels); extractive readers: of the start and of the end of an answer, each
            of shape (rows, length).
        """
        ...


class WrappedBackend:
    """A backend that is, for a start, another one.

    Args:
        backend: the other one.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def name(self) -> str:
        """As fingerprints record it."""
        return self._backend.name

    @property
    def device(self) -> str:
        """Where it runs now."""
        return self._backend.device

    @property
    def dtype(self) -> str:
        """Numeric precision."""
        return self._backend.dtype

    @property
    def workers(self) -> int:
        """How many threads may call `run` at once with profit."""
        return self._backend.workers

    @property
    def batched(self) -> bool:
        """Whether rows run together."""
        return is_batched(self._backend)

    def run(self, inputs: Mapping[str, NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        """Run the model once."""
        return self._backend.run(inputs)


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
    On a GPU rows of like length run together, padded, and token vectors stay there as tensors.

    Args:
        backend: runs the rows.
        ids: word-piece ids of each row, special ones included.
        types: token types of each row, for models that take them.

    Returns:
        Per row the outputs of `Backend.run` without the first axis.

    Raises:
        DeadlineExceededError: nobody waits for the result any more.
    """
    return begin_rows(backend, ids, types)()


def is_batched(backend: Backend) -> bool:
    """Whether rows run together: on every device but the CPU."""
    return bool(getattr(backend, "batched", backend.device != "cpu"))


def begin_rows(
    backend: Backend, ids: Sequence[Ids], types: Sequence[Ids] | None = None
) -> Callable[[], list[RowOutputs]]:
    """Begin `run_rows`; the function that is returned waits for the results.

    On a GPU the caller can prepare the next rows meanwhile; on a CPU all is done on return.
    """
    own = getattr(backend, "begin_rows", None)
    if own is not None:
        begun: Callable[[], list[RowOutputs]] = own(ids, types)
        return begun
    if not is_batched(backend):
        done = _unpadded(backend, ids, types)
        return lambda: done
    found: list[RowOutputs] = [[] for _ in ids]
    started: deque[tuple[Sequence[int], Callable[[], list[RowOutputs]]]] = deque()

    def fetch(most: int) -> None:
        while len(started) > most:
            rows, wait = started.popleft()
            for row, outputs in zip(rows, wait(), strict=True):
                found[row] = outputs

    # Sums of padded rows differ in the last bits, which can change what they are rounded to.
    plan = unpadded_batches if backend.dtype == "int8" else plan_batches
    for batch in plan([len(row) for row in ids]):
        check_deadline()
        inputs = {INPUT_IDS: padded(ids, batch), ATTENTION_MASK: mask_of(ids, batch)}
        if types is not None:
            inputs[TOKEN_TYPE_IDS] = padded(types, batch)
        started.append(
            (batch.rows, start_batch(backend, inputs, [len(ids[row]) for row in batch.rows]))
        )
        fetch(_MOST_STARTED)

    def wait() -> list[RowOutputs]:
        fetch(0)
        return found

    return wait


def start_batch(
    backend: Backend, inputs: Mapping[str, NDArray[np.int64]], lengths: Sequence[int]
) -> Callable[[], list[RowOutputs]]:
    """Start a padded batch, or run it on a backend that does not start batches.

    Args:
        backend: runs it.
        inputs: as `Backend.run`; rows beyond `lengths` only pad.
        lengths: tokens of each row.

    Returns:
        Waits, and returns the outputs of each row, cut to its length.
    """
    start = getattr(backend, "start", None)
    if start is not None:
        started: Callable[[], list[RowOutputs]] = start(inputs, lengths)
        return started
    outputs = backend.run(inputs)
    # Copies: a row of an array keeps the whole array in memory.
    done = [
        [np.array(one[row, :n] if one.ndim == 3 else one[row], np.float32) for one in outputs]
        for row, n in enumerate(lengths)
    ]
    return lambda: done


def _unpadded(
    backend: Backend, ids: Sequence[Ids], types: Sequence[Ids] | None
) -> list[RowOutputs]:
    found: list[RowOutputs] = [[] for _ in ids]
    packing: Any = backend

    def run(part: list[int]) -> None:
        check_deadline()
        part_types = None if types is None else [types[row] for row in part]
        if len(part) > 1:
            outputs = packing.run_packed([ids[row] for row in part], part_types)
            for row, one in zip(part, outputs, strict=True):
                found[row] = one
            return
        [row] = part
        given = np.array([ids[row]], dtype=np.int64)
        inputs = {INPUT_IDS: given, ATTENTION_MASK: np.ones_like(given)}
        if part_types is not None:
            inputs[TOKEN_TYPE_IDS] = np.array(part_types, dtype=np.int64)
        # Copies: a row of an array keeps the whole array in memory.
        found[row] = [np.array(one[0], dtype=np.float32) for one in backend.run(inputs)]

    parts = _parts([len(row) for row in ids], getattr(backend, "most_packed", 0))
    in_threads(run, parts, backend.workers)
    return found


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
