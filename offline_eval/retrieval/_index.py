"""The passages of a knowledge base by their embeddings, made once for all strategies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..knowledge_base import KnowledgeBase
from ..ookb import Case, CaseKind, Encoder, embed_all
from ._top_k import top_k_in_blocks

Progress = Callable[[int, int], None]


class PassageIndex:
    """The passages of a knowledge base, embedded once.

    Args:
        knowledge_base: that is searched.
        encoder: for passages and queries.
        on_progress: called with (passages embedded, passages in all).

    Attributes:
        encoder: as given.
        ids: of the passages, in the order of the knowledge base.
        matrix: their embeddings, of shape (passages, dimensions).

    Raises:
        InputError: the encoder gives something else than embeddings.
    """

    def __init__(
        self,
        knowledge_base: KnowledgeBase,
        encoder: Encoder,
        on_progress: Progress | None = None,
    ) -> None:
        self.encoder = encoder
        self.ids = list(knowledge_base.passages)
        self._rows = {name: row for row, name in enumerate(self.ids)}
        self.matrix = embed_all(list(knowledge_base.passages.values()), encoder, on_progress)

    def nearest(self, vector: NDArray[np.float32], k: int, without: str | None = None) -> list[str]:
        """Ids of the `k` passages nearest to a vector, best first; ties keep their order.

        Args:
            vector: of shape (dimensions,).
            k: at most this many.
            without: a passage that must not be found.
        """
        gone = -1 if without is None else self._rows[without]
        rows, _ = top_k_in_blocks(vector[None, :], self.matrix, k, [gone])
        return [self.ids[row] for row in rows[0] if row >= 0]

    def vector(self, name: str) -> NDArray[np.float32]:
        """The embedding of a passage, of shape (dimensions,)."""
        return np.asarray(self.matrix[self._rows[name]])

    def cosine(self, one: str, other: str) -> float:
        """The cosine of two passages."""
        return float(np.dot(self.vector(one), self.vector(other)))

    def nearest_for(self, case: Case, vector: NDArray[np.float32], k: int) -> list[str]:
        """As `nearest`, without the case's own passage where it is left out."""
        return self.nearest(vector, k, case.passage_id if case.kind is CaseKind.LEFT_OUT else None)
