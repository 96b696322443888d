"""Batches for a GPU: rows of like length, padded to a few shapes.

- **Few shapes**: lengths are padded to `LENGTHS`, the rows of small batches to `_HEIGHTS`, so
  that a shape comes again and can be replayed as a CUDA graph.
- **A budget of tokens**, not of rows, closes a batch.
- **Nothing waits**: copies to the device start from pinned memory, launches return at once,
  and what is needed on the host comes back in one copy per batch.
- **Late interaction stays on the device**: token vectors are not copied to the host; the best
  products of all pairs come from one batched product over padded passages.

The same code runs on a CPU (without graphs and pinned memory), which is how it is tested.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _process
from ..errors import optional_import

LENGTHS = (16, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512)
TOKENS_PER_BATCH = 32_768
# Below so many tokens a launch costs more than the padding of rows of unlike length.
_FEW_TOKENS = 4_096
# Larger batches keep the device busy without a graph, whose memory would stay taken.
_TOKENS_PER_GRAPH = 8_192
_HEIGHTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# Numbers of padded passages that one batched product reads: 256 MB in float32.
_NUMBERS_PER_PRODUCT = 64 * 2**20
_log = logging.getLogger(__name__)

Ids = Sequence[int] | NDArray[np.int32]
Outputs = tuple[Any, ...]
Model = Callable[[Mapping[str, Any]], Outputs]
Shape = tuple[tuple[str, tuple[int, ...]], ...]
Vectors = Sequence[NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that run together.

    Attributes:
        rows: their places in what was given.
        height: rows after padding.
        length: tokens of each row after padding.
    """

    rows: tuple[int, ...]
    height: int
    length: int


def plan_batches(lengths: Sequence[int], budget: int = TOKENS_PER_BATCH) -> list[Batch]:
    """Put rows into batches, the longest first.

    Args:
        lengths: tokens of each row, at least 1.
        budget: the most tokens of a batch, padding included; a longer row runs by itself.
    """
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    found: list[Batch] = []
    start = 0
    while start < len(order):
        width = _at_least(LENGTHS, lengths[order[start]])
        end = start + 1
        while end < len(order) and (end - start + 1) * width <= budget:
            full = (end - start) * width >= _FEW_TOKENS
            if full and _at_least(LENGTHS, lengths[order[end]]) < width:
                break
            end += 1
        height = _at_least(_HEIGHTS, end - start)
        if height * width > min(budget, _TOKENS_PER_GRAPH):
            height = end - start
        found.append(Batch(tuple(order[start:end]), height, width))
        start = end
    return found


def unpadded_batches(lengths: Sequence[int], budget: int = TOKENS_PER_BATCH) -> list[Batch]:
    """As `plan_batches`, with rows of one length together: nothing is padded."""
    by_length: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        by_length.setdefault(length, []).append(row)
    found: list[Batch] = []
    for length, rows in by_length.items():
        step = max(1, budget // length)
        parts = [rows[start : start + step] for start in range(0, len(rows), step)]
        found += [Batch(tuple(part), len(part), length) for part in parts]
    return found


def _at_least(sizes: Sequence[int], wanted: int) -> int:
    """The smallest of the sizes that holds so many; `wanted` itself beyond the last."""
    return next((size for size in sizes if size >= wanted), wanted)


def padded(rows: Sequence[Ids], batch: Batch) -> NDArray[np.int64]:
    """Rows of whole numbers as one array of the batch's shape, filled with 0."""
    found = np.zeros((batch.height, batch.length), dtype=np.int64)
    for place, row in enumerate(batch.rows):
        found[place, : len(rows[row])] = rows[row]
    return found


def mask_of(rows: Sequence[Ids], batch: Batch) -> NDArray[np.int64]:
    """1 where a row has a token; a row that only pads has one, or its sums would be NaN."""
    lengths = np.ones(batch.height, dtype=np.int64)
    lengths[: len(batch.rows)] = [len(rows[row]) for row in batch.rows]
    return (np.arange(batch.length)[None, :] < lengths[:, None]).astype(np.int64)


class GraphRuns:
    """Runs a model; a small shape that comes again is captured and replayed from then on.

    Where a capture fails, the model runs without graphs from then on, and the failure is logged
    once.

    Args:
        model: launches work and reads nothing back.
        capture: makes a replay of the model for tensors of one shape, which takes such tensors
            and returns outputs that the next replay overwrites; None runs the model itself.
    """

    def __init__(
        self, model: Model, capture: Callable[[Model, Mapping[str, Any]], Model] | None
    ) -> None:
        self._model, self._capture = model, capture
        self._replays: dict[Shape, Model] = {}
        self._seen: set[Shape] = set()
        self.lock = threading.Lock()

    @property
    def shapes(self) -> int:
        """How many shapes are captured."""
        return len(self._replays)

    def __call__(self, inputs: Mapping[str, Any]) -> Outputs:
        """Run the model; the caller holds `lock` until it has launched copies of the outputs."""
        if self._capture is None:
            return self._model(inputs)
        shape = tuple((name, tuple(tensor.shape)) for name, tensor in sorted(inputs.items()))
        if shape not in self._replays:
            small = next(iter(inputs.values())).numel() <= _TOKENS_PER_GRAPH
            if not small or shape not in self._seen:
                # A shape that comes once is not worth the memory of a graph.
                self._seen.add(shape)
                return self._model(inputs)
            try:
                self._replays[shape] = self._capture(self._model, inputs)
            except RuntimeError as error:
                if isinstance(error, optional_import("torch").OutOfMemoryError):
                    # Of the batch, not of graphs: the caller halves it.
                    raise
                _log.warning("runs without CUDA graphs (%s)", type(error).__name__)
                self._capture = None
                return self._model(inputs)
        return self._replays[shape](inputs)


class CudaCapture:
    """Captures a model for one shape as a CUDA graph; graphs share one pool of memory.

    Never more than one graph runs at a time, which sharing memory demands: `GraphRuns.lock`
    and the one stream see to it.
    """

    def __init__(self) -> None:
        self._torch: Any = optional_import("torch")
        self._pool: Any = None

    def __call__(self, model: Model, inputs: Mapping[str, Any]) -> Model:
        """Capture `model` for tensors shaped as `inputs`.

        Raises:
            RuntimeError: the model does something that a graph cannot hold.
        """
        cuda = self._torch.cuda
        static = {name: tensor.clone() for name, tensor in inputs.items()}
        device = next(iter(static.values())).device
        with cuda.device(device):
            side = cuda.Stream()
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                for _ in range(3):
                    model(static)
            cuda.current_stream().wait_stream(side)
            graph = cuda.CUDAGraph()
            # Other threads may allocate memory meanwhile.
            with cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                outputs = model(static)
        self._pool = graph.pool()

        def replay(given: Mapping[str, Any]) -> Outputs:
            for name, tensor in given.items():
                static[name].copy_(tensor, non_blocking=True)
            with cuda.device(device):
                graph.replay()
            return outputs

        return replay


def to_device(inputs: Mapping[str, NDArray[np.int64]], device: Any) -> dict[str, Any]:
    """Arrays of one shape as tensors on a device, in one copy that nobody waits for."""
    torch: Any = optional_import("torch")
    together = torch.from_numpy(np.stack(list(inputs.values())))
    if torch.device(device).type == "cuda":
        together = together.pin_memory()
    moved = together.to(device, non_blocking=True)
    return dict(zip(inputs, moved.unbind(0), strict=True))


def to_host(tensor: Any) -> Callable[[], NDArray[Any]]:
    """Start copying a tensor to the host; the result waits for the copy."""
    torch: Any = optional_import("torch")
    if tensor.device.type != "cuda":
        return lambda: np.asarray(tensor.cpu().numpy())
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record(torch.cuda.current_stream(tensor.device))

    def wait() -> NDArray[Any]:
        copied.synchronize()
        # A copy, so that the pinned memory can be used again.
        return np.array(host.numpy())

    return wait


def token_rows_of(vectors: Any, lengths: Sequence[int]) -> list[Any]:
    """The token vectors of each row without padding, of shape (tokens, dimensions) each.

    Args:
        vectors: of shape (padded rows, padded length, dimensions).
        lengths: of the rows that are no padding.
    """
    width = vectors.shape[1]
    kept = np.concatenate([row * width + np.arange(n) for row, n in enumerate(lengths)])
    index = to_device({"kept": kept}, vectors.device)["kept"]
    return list(vectors.reshape(-1, vectors.shape[-1])[index].split(list(lengths)))


def best_on_device(
    asked: Sequence[Any], told: Sequence[Any], pairs: Sequence[tuple[int, int]]
) -> list[NDArray[np.float32]]:
    """For each row of a question the largest cosine with a row of a passage, for many pairs.

    Args:
        asked: token vectors of each question, tensors of shape (n, dimensions).
        told: token vectors of each passage, tensors of shape (m, dimensions), m at least 1.
        pairs: a question's and a passage's place in the two.

    Returns:
        Per pair an array of shape (n,).
    """
    torch: Any = optional_import("torch")
    questions, passages = [len(one) for one in asked], [len(one) for one in told]
    most = max((questions[q] for q, _ in pairs), default=0)
    if not most:
        return [np.zeros(0, dtype=np.float32) for _ in pairs]

    def best_of(part: Sequence[tuple[int, int]]) -> list[Any]:
        try:
            rows, _ = _gathered(units[0], questions, [q for q, _ in part])
            columns, present = _gathered(units[1], passages, [p for _, p in part])
            products = torch.bmm(rows, columns.transpose(1, 2))
            found = products.masked_fill(~present[:, None, :], -torch.inf).amax(-1)
            return [torch.nn.functional.pad(found, (0, most - found.shape[1]))]
        except torch.OutOfMemoryError:
            if len(part) == 1:
                raise
        _process.count("out_of_memory")
        middle = len(part) // 2
        return [*best_of(part[:middle]), *best_of(part[middle:])]

    best: list[Any] = []
    with torch.inference_mode():
        units = [torch.nn.functional.normalize(torch.cat(list(x)), dim=-1) for x in (asked, told)]
        longest = max(passages[p] for _, p in pairs)
        size = max(1, _NUMBERS_PER_PRODUCT // ((longest + most) * units[0].shape[-1]))
        for start in range(0, len(pairs), size):
            best += best_of(pairs[start : start + size])
        whole = to_host(torch.cat(best))()
    return [whole[row, : questions[q]] for row, (q, _) in enumerate(pairs)]


def _gathered(flat: Any, sizes: Sequence[int], wanted: Sequence[int]) -> tuple[Any, Any]:
    """Padded texts of shape (wanted, longest, dimensions), and where they have a token."""
    starts = [0, *accumulate(sizes)]
    lengths = np.array([sizes[one] for one in wanted], dtype=np.int64)
    places = np.arange(lengths.max(), dtype=np.int64)[None, :]
    present = places < lengths[:, None]
    first = np.array([starts[one] for one in wanted], dtype=np.int64)[:, None]
    moved = to_device(
        {"index": np.where(present, first + places, 0), "present": present.astype(np.int64)},
        flat.device,
    )
    return flat[moved["index"]], moved["present"].bool()
