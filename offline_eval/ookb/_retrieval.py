"""Basic RAG: the passages nearest to the question by embedding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ...guard import Fingerprint
from ..knowledge_base import KnowledgeBase

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
