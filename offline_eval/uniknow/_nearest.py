"""Ranking all passages of a data set for a question by embedding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

_BLOCK = 64
Progress = Callable[[int, int], None]


class TextEncoder(Protocol):
    """Texts to unit-length embeddings; `BiEncoderScorer` is one."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeddings of shape (len(texts), dimensions)."""
        ...


class NearestPassages:
    """Passages by falling cosine with a question.

    Args:
        passages: what is ranked; equal texts are kept once.
        questions: those that will be asked, and other short texts to be compared.
        encoder: for both.
        on_progress: called with the number of texts encoded and of all texts.
    """

    def __init__(
        self,
        passages: Sequence[str],
        questions: Sequence[str],
        encoder: TextEncoder,
        on_progress: Progress | None = None,
    ) -> None:
        self.passages = list(dict.fromkeys(passages))
        asked = list(dict.fromkeys(questions))
        vectors = _embed([*self.passages, *asked], encoder, on_progress)
        self._matrix = vectors[: len(self.passages)]
        self._queries = dict(zip(asked, vectors[len(self.passages) :], strict=True))

    def ranked(self, question: str) -> Iterator[str]:
        """All passages, the nearest first; equally near ones in their given order."""
        if not self.passages:
            return
        cosines = self._matrix @ self._queries[question]
        for index in np.argsort(-cosines, kind="stable"):
            yield self.passages[int(index)]

    def likeness(self, text: str, others: Sequence[str]) -> NDArray[np.float32]:
        """Cosines of one of the questions or short texts with others, of shape (len(others),)."""
        rows = np.stack([self._queries[other] for other in others])
        return np.asarray(rows @ self._queries[text], dtype=np.float32)


def _embed(
    texts: list[str], encoder: TextEncoder, on_progress: Progress | None
) -> NDArray[np.float32]:
    blocks = []
    for start in range(0, len(texts), _BLOCK):
        blocks.append(encoder.embed(texts[start : start + _BLOCK]))
        if on_progress is not None:
            on_progress(min(start + _BLOCK, len(texts)), len(texts))
    return np.concatenate(blocks) if blocks else np.zeros((0, 1), dtype=np.float32)
