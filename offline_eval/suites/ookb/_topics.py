"""Which passages are on the topic of another one: those whose embeddings are close to its own."""

from __future__ import annotations

from collections.abc import Sequence

from ....guard.engine import BiEncoderScorer
from ...data import embed_all

# A cosine of the bundled bi-encoder. Two passages on one subject are above it; passages that
# only share the product are below.
SAME_TOPIC = 0.7


class Topics:
    """Passages compared by the bundled bi-encoder, which embeds each text once."""

    def __init__(self) -> None:
        self._encoder = BiEncoderScorer()

    def on_topic(self, own: Sequence[str], texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it is on the topic of one of `own`."""
        if not own or not texts:
            return [False] * len(texts)
        cosines = embed_all(texts, self._encoder) @ embed_all(own, self._encoder).T
        return [bool(nearest >= SAME_TOPIC) for nearest in cosines.max(axis=1)]
