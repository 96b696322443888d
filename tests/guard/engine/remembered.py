"""The embedded encoder, run once a process on equal batches, for tests that repeat them.

The same articles are encoded by the demo, the help desk, pages of the documentation and
notebooks, each with scorers that they load themselves. Outputs are the model's own: equal
batches of ids, and no others, get copies of what it gave the first time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from knowgate.guard.engine import embedded
from knowgate.guard.engine.backends import LoadedEncoder, RowOutputs, Runtime

_Key = tuple[Any, ...]
# Vectors of all word pieces are large: those that were wanted longest ago are dropped.
_MOST_BYTES = 300_000_000


class _Outputs:
    """What the encoder gave, by encoder and batch; the last wanted stand last."""

    def __init__(self) -> None:
        self._found: dict[_Key, RowOutputs] = {}
        self._bytes = 0
        # Guards measure in threads.
        self._lock = threading.Lock()

    def of(self, key: _Key, compute: Callable[[], RowOutputs]) -> RowOutputs:
        """Copies of those of before; else they are computed and kept."""
        with self._lock:
            found = self._found.pop(key, None)
            if found is not None:
                self._found[key] = found
        if found is None:
            found = compute()
            with self._lock:
                if key not in self._found:
                    self._bytes += _bytes_of(found)
                    self._found[key] = found
                while self._bytes > _MOST_BYTES:
                    self._bytes -= _bytes_of(self._found.pop(next(iter(self._found))))
        return [np.array(one) for one in found]


def _bytes_of(found: RowOutputs) -> int:
    return sum(one.nbytes for one in found)


_OUTPUTS = _Outputs()


class _Remembered:
    """A backend that computes equal batches once."""

    def __init__(self, backend: Any, name: _Key) -> None:
        self._backend, self._name = backend, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def run(self, inputs: dict[str, Any]) -> list[Any]:
        given = tuple((name, one.shape, one.tobytes()) for name, one in sorted(inputs.items()))
        return _OUTPUTS.of((*self._name, given), lambda: self._backend.run(inputs))


@contextmanager
def remembered_encoders() -> Iterator[None]:
    """Load embedded encoders, with or without the bundled adapter, that compute batches once."""
    load = embedded.load_embedded
    adapters = sorted((Path(embedded.__file__).parents[1] / "signals").rglob("data/*"))

    def loading(runtime: Runtime, adapter: Path | None = None) -> LoadedEncoder:
        loaded = load(runtime, adapter)
        if adapter not in (None, *adapters) or loaded.backend.device != "cpu":
            return loaded
        backend: Any = _Remembered(loaded.backend, (adapter, runtime))
        return replace(loaded, backend=backend)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "load_embedded", loading)
        yield
