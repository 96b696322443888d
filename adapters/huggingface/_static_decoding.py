"""Steps of short answers on a cache of fixed size, each step one CUDA graph.

A decoding step of a small batch is hundreds of launches, each shorter than its launch costs.
On a cache of fixed size a step is the same work every time, so it is captured once per shape
and replayed. Rows that are done stay in the batch until its end, which is why this is for
short answers. Where a capture fails, steps run as usual on the same cache.

Tested on a CPU, without graphs; it has not run on CUDA yet.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...guard.deadlines import check_deadline
from ...guard.errors import LanguageModelError

if TYPE_CHECKING:
    import torch

# Answers of more tokens are decoded with done rows dropped.
MOST_TOKENS = 64
# Shapes that are kept for the next batch; each holds the memory of its keys and values.
_KEPT_SHAPES = 2
_LENGTH_STEP = 64
_log = logging.getLogger(__name__)

Forward = Callable[..., Any]
Capture = Callable[[Callable[[], Any], Any], Callable[[], Any]]


def shape_of(rows: int, length: int) -> tuple[int, int]:
    """The rows and the length of the fixed cache that holds so much; at most a quarter more rows.

    >>> shape_of(10, 130), shape_of(7, 64)
    ((10, 192), (7, 64))
    """
    grain = max(1, (1 << max(0, (rows - 1).bit_length())) // 8)
    return -(-rows // grain) * grain, -(-length // _LENGTH_STEP) * _LENGTH_STEP


def capture_graph(work: Callable[[], Any], device: torch.device) -> Callable[[], Any]:
    """Capture work on a device as a CUDA graph; its replay returns the same tensors every time.

    Raises:
        RuntimeError: the work does something that a graph cannot hold.
    """
    import torch

    graph = torch.cuda.CUDAGraph()
    # Other threads may use the device meanwhile.
    with torch.cuda.device(device), torch.cuda.graph(graph, capture_error_mode="thread_local"):
        outputs = work()

    def replay() -> Any:
        with torch.cuda.device(device):
            graph.replay()
        return outputs

    return replay


class StaticSteps:
    """Makes and keeps fixed caches for a model.

    Args:
        forward: one pass of the model over `ids`, `mask` and `positions` with `cache`, under
            the lock; returns logits of the last token.
        capture: captures a step; None runs every step as usual.
        lock: one pass of the model at a time.
    """

    def __init__(
        self, forward: Forward, capture: Capture | None, lock: AbstractContextManager[Any]
    ) -> None:
        self.forward, self.capture, self.lock = forward, capture, lock
        self._kept: OrderedDict[tuple[Any, ...], StaticStep] = OrderedDict()

    def begin(
        self, cache: Any, mask: torch.Tensor, positions: torch.Tensor, length: int
    ) -> StaticStep:
        """Take over what was prefilled.

        Args:
            cache: with layers that keep all keys and values.
            mask: of shape (rows, prompt and answer), 0 on padding.
            positions: of each row's last token, of shape (rows,).
            length: tokens in the cache.
        """
        import torch

        key = (*shape_of(*mask.shape), mask.device)
        try:
            # Taken out while it is used: another thread makes one of its own.
            step = self._kept.pop(key, None) or StaticStep(self, key, cache)
            step.fill(cache, mask, positions, length)
        except torch.OutOfMemoryError:
            self._kept.clear()
            raise
        return step

    def give_back(self, step: StaticStep) -> None:
        """Keep a finished batch's cache and graph for the next batch of its shape."""
        self._kept[step.key] = step
        while len(self._kept) > _KEPT_SHAPES:
            self._kept.popitem(last=False)

    def stop_capturing(self, error: BaseException) -> None:
        """Run all steps as usual from now on."""
        _log.warning("decodes without CUDA graphs (%s)", type(error).__name__)
        self.capture = None


class StaticStep:
    """The fixed cache of one batch, and the work of one step."""

    def __init__(self, steps: StaticSteps, key: tuple[Any, ...], like: Any) -> None:
        import torch

        self._steps, self.key = steps, key
        rows, length, device = key
        self._rows = 0
        self._cache = _fixed_cache(like, rows, length)
        self._ids = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self._positions = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self._mask = torch.ones(rows, length, dtype=torch.long, device=device)
        self._replay: Callable[[], Any] | None = None
        self._steps_done = 0

    def fill(self, cache: Any, mask: torch.Tensor, positions: torch.Tensor, length: int) -> None:
        """Copy a prefilled batch in."""
        import torch

        self._rows = len(mask)
        with torch.inference_mode():
            for fixed, grown in zip(self._cache.layers, cache.layers, strict=True):
                fixed.take(grown.keys, grown.values, length)
            self._mask.fill_(1)
            self._mask[: self._rows, : mask.shape[1]] = mask
            self._positions.zero_()
            self._positions[: self._rows, 0] = positions

    def run(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits after one more token per row, of shape (rows, vocabulary)."""
        import torch

        with torch.inference_mode():
            self._ids[: self._rows, 0] = tokens
            self._positions += 1
        logits: torch.Tensor = self._step()[: self._rows]
        return logits

    def _step(self) -> Any:
        import torch

        steps = self._steps
        self._steps_done += 1
        if self._replay is None and steps.capture is not None and self._steps_done > 2:
            # The steps before were the warm-up that a capture needs.
            try:
                self._replay = steps.capture(self._work, self._ids.device)
            except (RuntimeError, LanguageModelError) as error:
                if isinstance(error, torch.OutOfMemoryError):
                    # Of the batch, not of graphs: the caller halves it.
                    raise
                steps.stop_capturing(error)
        if self._replay is None:
            return self._work()
        with steps.lock:
            check_deadline()
            return self._replay()

    def _work(self) -> Any:
        return self._steps.forward(self._ids, self._mask, self._positions, cache=self._cache)


def _fixed_cache(like: Any, rows: int, length: int) -> Any:
    """A cache of fixed size with layers shaped as those of a prefilled one."""
    import torch
    from transformers.cache_utils import Cache

    kind = _fixed_layer()
    with torch.inference_mode():
        return Cache(layers=[kind(rows, length, each.keys, each.values) for each in like.layers])


@lru_cache(maxsize=1)
def _fixed_layer() -> Any:
    import torch
    from transformers import cache_utils

    static_layer: Any = cache_utils.StaticLayer

    class FixedLayer(static_layer):  # type: ignore[misc]
        """A static layer that is filled from a prefilled one and counts tokens on the device."""

        def __init__(
            self, rows: int, length: int, keys: torch.Tensor, values: torch.Tensor
        ) -> None:
            super().__init__(max_cache_len=length)
            self.keys: Any = keys.new_zeros(rows, keys.shape[1], length, keys.shape[3])
            self.values: Any = values.new_zeros(rows, values.shape[1], length, values.shape[3])
            self.dtype, self.device = keys.dtype, keys.device
            self.filled = torch.zeros((), dtype=torch.long, device=keys.device)
            self.is_initialized = True

        def take(self, keys: torch.Tensor, values: torch.Tensor, filled: int) -> None:
            """Take over the keys and values of so many tokens."""
            self.keys[: len(keys), :, :filled] = keys
            self.values[: len(values), :, :filled] = values
            self.filled.fill_(filled)

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            """Write further tokens in place."""
            count = key_states.shape[-2]
            places = torch.arange(count, device=self.filled.device) + self.filled
            self.filled.add_(count)
            self.keys.index_copy_(2, places, key_states)
            self.values.index_copy_(2, places, value_states)
            return self.keys, self.values

        def get_seq_length(self, *_: Any) -> Any:
            """Tokens so far, as a tensor: a graph reads it anew at every replay."""
            return self.filled

    return FixedLayer
