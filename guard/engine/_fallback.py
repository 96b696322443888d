"""Go on computing where a device fails: in smaller batches, then on the CPU.

- **Out of memory**: the batch is halved until it fits. The size that did is remembered, and the
  device goes on with it; a single row that does not fit goes to the CPU.
- **NaN and infinity** never count as a result: such rows run again, at most half of them
  together, then on the CPU. If they are still not finite, the call fails.
- **A lost device**: after any other failure one short row is tried. If that fails as well, the
  CPU computes everything until the process ends; if not, the batch is halved as above.

All of it is counted, see `_process`.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _process
from ..deadlines import check_deadline
from ..errors import AllWorkersBusyError, DeadlineExceededError, KnowgateError, SignalValueError
from ._backends import (
    INPUT_IDS,
    Backend,
    LoadedEncoder,
    RowOutputs,
    WrappedBackend,
    is_batched,
    start_batch,
)
from ._batcher import Batcher, SharedBackend

_logger = logging.getLogger("knowgate.guard")

Inputs = Mapping[str, NDArray[np.int64]]
# Not failures of the device.
_CALLERS_OWN = (KnowgateError, DeadlineExceededError, AllWorkersBusyError)


@dataclass(frozen=True, slots=True)
class _Failure:
    """How a batch failed, without the error: its traceback would keep the memory taken."""

    name: str
    out_of_memory: bool

    @classmethod
    def of(cls, error: Exception) -> _Failure:
        torch = sys.modules.get("torch")
        kinds = (MemoryError,) if torch is None else (MemoryError, torch.OutOfMemoryError)
        return cls(type(error).__name__, isinstance(error, kinds))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Rows of a padded batch.

    Attributes:
        inputs: as `Backend.run`; rows beyond `lengths` only pad.
        lengths: word pieces of each row.
    """

    inputs: Inputs
    lengths: Sequence[int]

    @property
    def size(self) -> int:
        """Word pieces, padding included."""
        return int(self.inputs[INPUT_IDS].size)

    def only(self, rows: Sequence[int]) -> _Batch:
        """Some of its rows, padded no further than they need."""
        lengths = [self.lengths[row] for row in rows]
        places, width = list(rows), max(lengths)
        return _Batch({name: a[places, :width] for name, a in self.inputs.items()}, lengths)

    def halves(self) -> list[_Batch]:
        """Its rows in two parts."""
        return [self.only(part) for part in _halved(range(len(self.lengths)))]


def _halved(rows: Sequence[int]) -> list[Sequence[int]]:
    middle = (len(rows) + 1) // 2
    return [part for part in (rows[:middle], rows[middle:]) if part]


class FallbackBackend(WrappedBackend):
    """A backend on a device that may fail, and the CPU that takes over.

    Args:
        backend: on the device.
        load_cpu: loads the same model on the CPU; called once, when it is needed.
    """

    def __init__(self, backend: Backend, load_cpu: Callable[[], Backend]) -> None:
        super().__init__(backend)
        self._load_cpu = load_cpu
        self._lock = threading.Lock()
        self._cpu: Backend | None = None
        self._lost = False
        self._most_size = sys.maxsize

    @property
    def device(self) -> str:
        """Where it runs now; `cpu` after the device was lost."""
        return "cpu" if self._lost else self._backend.device

    @property
    def workers(self) -> int:
        """How many threads may call `run` at once with profit."""
        return self._on_cpu().workers if self._lost else self._backend.workers

    @property
    def batched(self) -> bool:
        """Whether rows run together, by `start`."""
        return not self._lost and is_batched(self._backend)

    def run(self, inputs: Inputs) -> list[NDArray[np.float32]]:
        """Run the model once, without a second try."""
        return (self._on_cpu() if self._lost else self._backend).run(inputs)

    def start(self, inputs: Inputs, lengths: Sequence[int]) -> Callable[[], list[RowOutputs]]:
        """Start the model on a padded batch; what fails is computed again where it can.

        Args:
            inputs: as `run`; rows beyond `lengths` only pad.
            lengths: word pieces of each row.

        Returns:
            Waits, and returns the outputs of each row, cut to its length.

        Raises:
            SignalValueError: while waiting: results are not finite, on the CPU neither.
        """
        batch = _Batch(inputs, lengths)
        if self._lost or not self._fits(batch):
            found = self._computed(batch)
            return lambda: found
        wait = self._tried(partial(start_batch, self._backend, inputs, lengths))
        return partial(self._fetched, batch, wait)

    def _fits(self, batch: _Batch) -> bool:
        return batch.size <= self._most_size or len(batch.lengths) == 1

    def _computed(self, batch: _Batch) -> list[RowOutputs]:
        """Compute a batch now, in as many parts as it needs."""
        if self._lost:
            return self._cpu_rows(batch)
        if not self._fits(batch):
            return [row for half in batch.halves() for row in self._computed(half)]
        return self.start(batch.inputs, batch.lengths)()

    @staticmethod
    def _tried(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except _CALLERS_OWN:
            raise
        except Exception as error:  # noqa: BLE001 - libraries have error classes of their own
            return _Failure.of(error)

    def _fetched(self, batch: _Batch, wait: Any) -> list[RowOutputs]:
        found = wait if isinstance(wait, _Failure) else self._tried(wait)
        if not isinstance(found, _Failure):
            return self._only_finite(batch, found)
        _free_memory()
        if found.out_of_memory:
            _process.count("out_of_memory")
            if len(batch.lengths) > 1:
                self._most_size = min(self._most_size, max(1, batch.size // 2))
        else:
            _process.count("failed")
            if not self._answers(batch):
                self._give_up(found)
        if self._lost or len(batch.lengths) == 1:
            return self._cpu_rows(batch)
        return [row for half in batch.halves() for row in self._computed(half)]

    def _only_finite(self, batch: _Batch, found: list[RowOutputs]) -> list[RowOutputs]:
        """The outputs, with those that are not finite computed again."""
        bad = _not_finite(found)
        if not bad:
            return found
        _process.count("not_finite", len(bad))
        found = list(found)
        for rows in _halved(bad):
            part = batch.only(rows)
            wait = self._tried(partial(start_batch, self._backend, part.inputs, part.lengths))
            again = wait if isinstance(wait, _Failure) else self._tried(wait)
            if isinstance(again, _Failure):
                again = self._cpu_rows(part)
            for place in _not_finite(again):
                [again[place]] = self._cpu_rows(part.only([place]))
            for row, outputs in zip(rows, again, strict=True):
                found[row] = outputs
        return found

    def _cpu_rows(self, batch: _Batch) -> list[RowOutputs]:
        _process.count("cpu_row", len(batch.lengths))
        backend = self._on_cpu()
        found: list[RowOutputs] = []
        for row, length in enumerate(batch.lengths):
            check_deadline()
            inputs = {name: a[row : row + 1, :length] for name, a in batch.inputs.items()}
            found.append([np.array(one[0], dtype=np.float32) for one in backend.run(inputs)])
        if _not_finite(found):
            raise SignalValueError("relevance", "the encoder returned NaN or infinity")
        return found

    def _on_cpu(self) -> Backend:
        with self._lock:
            if self._cpu is None:
                self._cpu = self._load_cpu()
            return self._cpu

    def _answers(self, batch: _Batch) -> bool:
        """Whether the device computes a short row."""
        short = {
            name: array[:1, : min(batch.lengths[0], 8)] for name, array in batch.inputs.items()
        }
        found = self._tried(partial(self._backend.run, short))
        return not isinstance(found, _Failure) or found.out_of_memory

    def _give_up(self, failure: _Failure) -> None:
        with self._lock:
            first, self._lost = not self._lost, True
        if first:
            _process.count("device_lost")
            _logger.error(
                "device %s was lost (%s): the CPU computes until the process is restarted",
                self._backend.device,
                failure.name,
            )


def _not_finite(found: Sequence[RowOutputs]) -> list[int]:
    """Rows whose embedding or logits are not finite; a token vector that is not shows there."""
    if not found:
        return []
    finite = np.isfinite(np.stack([outputs[-1] for outputs in found]))
    return [row for row, fine in enumerate(finite.reshape(len(found), -1).all(axis=1)) if not fine]


def _free_memory() -> None:
    """Give back what torch keeps for later; other processes may need it, or larger blocks."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        try:
            torch.cuda.empty_cache()
        except RuntimeError:  # the device is lost
            return


def shared_and_protected(
    loaded: LoadedEncoder, load_cpu: Callable[[], LoadedEncoder]
) -> LoadedEncoder:
    """An encoder whose device is shared by all threads, with the CPU to take over.

    On a CPU nothing changes: there every thread computes its own rows.

    Args:
        loaded: the encoder.
        load_cpu: loads the same one on the CPU.
    """
    if loaded.backend.device == "cpu":
        return loaded
    protected = FallbackBackend(loaded.backend, lambda: load_cpu().backend)
    encode = loaded.encode_texts
    return replace(
        loaded,
        backend=SharedBackend(protected),
        encode_texts=None if encode is None else _shared_texts(encode),
    )


def _shared_texts(
    encode: Callable[[list[str]], NDArray[np.float32]],
) -> Callable[[list[str]], NDArray[np.float32]]:
    batcher: Batcher[str, NDArray[np.float32]] = Batcher(
        lambda texts: list(encode(texts)), size=lambda text: 1 + len(text) // 4
    )
    return lambda texts: np.stack(batcher.begin(texts)())
