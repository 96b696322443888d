"""One window of a text, encoded: what encoders give and passage stores keep."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class EncodedText:
    """One window of a text, encoded. Arrays are read-only.

    Args:
        ids: word-piece ids of shape (n,), the first [CLS] and the last [SEP].
        vectors: last hidden states of shape (n, dimensions), as the model gives them; a
            tensor where they stay on a GPU.
        embedding: the sentence embedding of shape (dimensions,), of unit length; for
            the embedded model the mean of all n hidden states, normalised.
    """

    __slots__ = ("_vectors", "embedding", "ids")

    def __init__(self, ids: NDArray[np.int32], vectors: Any, embedding: NDArray[np.float32]):
        self.ids, self.embedding = _frozen(ids), _frozen(embedding)
        # Here and not at every match, which would take as long as the products.
        self._vectors = _units(vectors) if isinstance(vectors, np.ndarray) else vectors

    @property
    def vectors(self) -> NDArray[np.float32]:
        """Token vectors of unit length on the host; copied from a device at every call."""
        tensor = self.on_device
        return self._vectors if tensor is None else _units(tensor.cpu().numpy())

    @property
    def on_device(self) -> Any:
        """The hidden states as a tensor where they were left on a device."""
        return None if isinstance(self._vectors, np.ndarray) else self._vectors

    @property
    def nbytes(self) -> int:
        """What ids, vectors and embedding take."""
        return int(self.ids.nbytes + self._vectors.nbytes + self.embedding.nbytes)


def _units(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows scaled to length 1; a row of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return _frozen(np.asarray(vectors / np.maximum(lengths, np.float32(1e-12)), np.float32))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
