"""Many texts to embeddings, some at a time, and none that cannot be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...guard.errors import InputError
from ...guard.policy import Fingerprint
from ._questions import KnowledgeBase

Embed = Callable[[Sequence[str]], NDArray[np.float32]]


class Encoder(Protocol):
    """What retrieves: text to embeddings, by a model that can be told from others.

    `BiEncoderScorer` is one.
    """

    @property
    def fingerprint(self) -> Fingerprint:
        """Identifies whatever the embeddings depend on."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit-length embeddings of shape (len(texts), dimensions)."""
        ...


class BasicRag:
    """Top-k passages by cosine; the query is the question and nothing else.

    Args:
        knowledge_base: its passages are embedded once.
        embed: texts → unit-length embeddings of shape (texts, dimensions).
    """

    def __init__(self, knowledge_base: KnowledgeBase, embed: Embed) -> None:
        self._ids = list(knowledge_base.passages)
        self._index = {name: i for i, name in enumerate(self._ids)}
        self._embed = embed
        self._matrix = embed(list(knowledge_base.passages.values()))

    def retrieve(self, question: str, *, k: int, without: str | None = None) -> list[str]:
        """Ids of the k nearest passages, best first; ties keep the order of the passages.

        Args:
            question: the query.
            k: at most this many.
            without: a passage to leave out.
        """
        query = self._embed([question])[0]
        # Row by row, as the scorer does, so that both see the very same cosines.
        cosines = np.asarray([float(np.dot(query, row)) for row in self._matrix])
        if without is not None:
            cosines[self._index[without]] = -np.inf
        order = np.argsort(-cosines, kind="stable")[: k + 1]
        found = [self._ids[i] for i in order if self._ids[i] != without]
        return found[:k]


_TEXTS_AT_ONCE = 64


def embed_all(
    texts: Sequence[str],
    encoder: Encoder,
    on_progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Embeddings of shape (len(texts), dimensions).

    Args:
        texts: any number.
        encoder: texts → embeddings.
        on_progress: called with (texts embedded, texts in all).

    Raises:
        InputError: the encoder gives something else than a finite row per text.
    """
    blocks = []
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        some = texts[start : start + _TEXTS_AT_ONCE]
        blocks.append(_checked(np.asarray(encoder.embed(some), dtype=np.float32), len(some), start))
        if on_progress is not None:
            on_progress(start + len(some), len(texts))
    return np.concatenate(blocks) if blocks else np.zeros((0, 1), dtype=np.float32)


def _checked(rows: NDArray[np.float32], texts: int, start: int) -> NDArray[np.float32]:
    if rows.ndim != 2 or len(rows) != texts:
        raise InputError(
            f"gave embeddings of shape {rows.shape} for {texts} texts",
            where="encoder",
            hint="it must give one row for each",
        )
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise InputError(
            f"the embedding of text {start + int(wrong[0]) + 1} is not finite",
            where="encoder",
            hint="use another encoder, or leave that text out",
        )
    return rows
